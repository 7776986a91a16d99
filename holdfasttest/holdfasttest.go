// Package holdfasttest tests applications on clusters: three controllers that are processes of their own, agents, and
// switches with hosts that ping each other. It needs no root, and uses loopback only. What an application does with one
// event after the other is tested by package app/apptest, in less time.
package holdfasttest

import (
	"os"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast"
	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/lab/failover"
)

// asHoldfast is the environment variable with which the program of a test is the command holdfast.
const asHoldfast = "HOLDFASTTEST_COMMAND"

// Main is TestMain of a package whose tests start clusters with these applications. The processes of a cluster are the
// program of the test, called as the command holdfast.
//
//	func TestMain(m *testing.M) { holdfasttest.Main(m, New) }
func Main(m *testing.M, apps ...func() *app.App) {
	if os.Getenv(asHoldfast) != "" {
		holdfast.Main(apps...)
	}
	os.Setenv(asHoldfast, "1")
	os.Exit(m.Run())
}

// Kill runs an application on three controllers, with four switches in a row and a host at each. The hosts ping each
// other, and the leader is killed with SIGKILL so many times, and restarted. The test fails if an event of a switch or
// a command to one was lost, repeated or out of order. A kill takes about three seconds. The application must bring the
// packets of hosts to their destination, or flood them; if it installs flow entries, fewer packets come to it.
func Kill(t testing.TB, app string, kills int) {
	t.Helper()
	if os.Getenv(asHoldfast) == "" {
		t.Fatal("there is no TestMain that calls holdfasttest.Main with the application")
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, err := failover.Run(t.Context(), failover.Config{Binary: binary, App: app, Kills: kills,
		Between: time.Second, PingInterval: 20 * time.Millisecond, Say: func(line string) { t.Log(line) }})
	if err == nil {
		err = r.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d events, %d commands, %d pings: none lost, none repeated", r.EventsProcessed, r.CommandsExecuted,
		r.PingsAnswered)
}
