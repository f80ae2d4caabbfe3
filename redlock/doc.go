// Package redlock takes locks on a majority of independent Redis servers.
package redlock
