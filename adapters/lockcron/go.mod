module github.com/seed80cd6120/locker/adapters/lockcron

go 1.26.0

require (
	github.com/robfig/cron/v3 v3.0.0
	github.com/seed80cd6120/locker v0.0.0
	go.uber.org/goleak v1.3.0
)

replace github.com/seed80cd6120/locker => ../../
