package sentry

import (
	"os"
	"testing"
)

// The sentry uses the network namespace of its goroutines. That of the main thread may be a switch's.
func TestSameNamespace(t *testing.T) {
	is := func(path string) bool {
		t.Helper()
		ns, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer ns.Close()
		same, err := sameNamespace(ns)
		if err != nil {
			t.Fatal(err)
		}
		return same
	}
	if !is("/proc/thread-self/ns/net") {
		t.Error("the namespace that we are in is not ours")
	}
	main, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	if main == ours {
		t.Skip("the main thread cannot be put elsewhere: run as root")
	}
	if is("/proc/self/ns/net") {
		t.Error("that of the main thread is ours")
	}
}
