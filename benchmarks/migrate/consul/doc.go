// Package consul has the test of what docs/migrate/consul.md says: that programs with Consul's lock and with the new one
// exclude each other during a migration. "make consul" builds a Consul from its modules and runs it. It is not part of
// make test: that build takes minutes.
package consul
