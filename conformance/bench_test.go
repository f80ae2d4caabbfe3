package conformance

import "testing"

func BenchmarkMemory(b *testing.B) { Benchmark(b, memoryHarness) }

func BenchmarkRemote(b *testing.B) { Benchmark(b, remoteHarness) }
