module github.com/seed80cd6120/locker/adapters/lockgocron

go 1.26.0

require (
	github.com/go-co-op/gocron/v2 v2.21.2
	github.com/google/uuid v1.6.0
	github.com/seed80cd6120/locker v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
)

replace github.com/seed80cd6120/locker => ../../
