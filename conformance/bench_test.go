package conformance

import "testing"

func BenchmarkRemote(b *testing.B) { Benchmark(b, remoteHarness) }
