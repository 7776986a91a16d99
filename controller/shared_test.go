package controller

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/api"
)

// An answer is made again only if it would differ: if counts have come, an actor was pinned or has moved, or a group
// has lost its leader.
func TestAnswerOfSameBasis(t *testing.T) {
	assigned := newAssignments()
	made := 0
	var b basis
	s := share(func(context.Context) (int, error) { made++; return made, nil },
		func(int) proto.Message { return &emptypb.Empty{} })
	s.basis = func(context.Context) (basis, error) {
		_, b.assigned = assigned.watch()
		return b, nil
	}
	for i, change := range []func(){func() {}, func() { b.counts = time.Now() }, assigned.started,
		func() { b.leaderless = "[2]" }} {
		change()
		var last *api.Encoded
		for range 3 {
			m, err := s.get(t.Context())
			if err != nil || last != nil && m != last {
				t.Fatalf("basis %d: another answer, %v", i, err)
			}
			last = m
		}
		if made != i+1 {
			t.Errorf("basis %d: %d answers were made", i, made)
		}
	}
}

// An answer is not kept for a basis that was another one while it was made.
func TestAnswerWhoseBasisChanges(t *testing.T) {
	made, leaderless := 0, ""
	s := share(func(context.Context) (int, error) { made++; leaderless = "[2]"; return made, nil },
		func(int) proto.Message { return &emptypb.Empty{} })
	s.basis = func(context.Context) (basis, error) { return basis{leaderless: leaderless}, nil }
	for range 3 {
		if _, err := s.get(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if made != 2 {
		t.Errorf("%d answers were made", made)
	}
	leaderless = ""
	if _, err := s.get(t.Context()); err != nil || made != 3 {
		t.Errorf("%d answers were made in the end, %v", made, err)
	}
}
