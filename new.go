package locker

import "github.com/seed80cd6120/locker/driver"

// New makes a Locker of a driver. It is for the authors of backends: users call
// the constructor of a backend.
func New(d driver.Driver, cfg *Config) (Locker, error) { panic("soon") }
