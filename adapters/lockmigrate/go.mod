module github.com/seed80cd6120/locker/adapters/lockmigrate

go 1.26.0

require (
	github.com/golang-migrate/migrate/v4 v4.16.0
	github.com/seed80cd6120/locker v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/google/uuid v1.3.0 // indirect
	github.com/hashicorp/errwrap v1.1.0 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
	github.com/kballard/go-shellquote v0.0.0-20180428030007-95032a82bc51 // indirect
	github.com/mattn/go-isatty v0.0.12 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20200410134404-eec4a21b6bb0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/mod v0.10.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/tools v0.9.1 // indirect
	lukechampine.com/uint128 v1.1.1 // indirect
	modernc.org/cc/v3 v3.36.0 // indirect
	modernc.org/ccgo/v3 v3.16.6 // indirect
	modernc.org/libc v1.16.7 // indirect
	modernc.org/mathutil v1.4.1 // indirect
	modernc.org/memory v1.1.1 // indirect
	modernc.org/opt v0.1.1 // indirect
	modernc.org/sqlite v1.18.0 // indirect
	modernc.org/strutil v1.1.1 // indirect
	modernc.org/token v1.0.0 // indirect
)

replace github.com/seed80cd6120/locker => ../../
