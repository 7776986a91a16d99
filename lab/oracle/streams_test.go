package oracle

import (
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/controller/audit"
)

// streamRecords makes records of one stream, each in an entry of its own.
func streamRecords(list ...audit.Record) []audit.Record {
	for i := range list {
		list[i].Index, list[i].Stream = uint64(10+i), "a to b"
	}
	return list
}

func sent(digest string) audit.Record {
	return audit.Record{Group: 1, Kind: audit.Sent, Digest: digest}
}

func received(seq uint64, digest string) audit.Record {
	return audit.Record{Group: 2, Kind: audit.Received, Seq: seq, Digest: digest}
}

func taken(seq uint64) audit.Record { return audit.Record{Group: 1, Kind: audit.Taken, Seq: seq} }

func TestCheckStreams(t *testing.T) {
	for _, c := range []struct {
		name           string
		records        []audit.Record
		lost, repeated int
		fault          string
	}{
		{"all", streamRecords(sent("x"), sent("y"), taken(2), received(1, "x"), received(2, "y")), 0, 0, ""},
		{"the last is missing", streamRecords(sent("x"), sent("y"), taken(1), received(1, "x")), 1, 0,
			"stream a to b: item 2 (group 1, entry 11) is sent and not received; 0 follow it"},
		{"a gap", streamRecords(sent("x"), sent("y"), received(2, "y")), 1, 0,
			"item 2 (group 2, entry 12) is received, and 1 was next"},
		{"again", streamRecords(sent("x"), received(1, "x"), received(1, "x")), 0, 1, "item 1 (group 2, entry 12) is " +
			"received again"},
		{"never sent", streamRecords(sent("x"), received(1, "x"), received(2, "y")), 0, 1, "only 1 were sent"},
		{"another item", streamRecords(sent("x"), received(1, "y")), 1, 0, "received as y; group 1, entry 10 sent x"},
		{"forgotten", streamRecords(sent("x"), taken(1)), 1, 0, "is forgotten by the sender, and 0 is the last"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := CheckStreams(c.records)
			if s.Lost != c.lost || s.Repeated != c.repeated || (s.Fault == "") != (c.fault == "") ||
				!strings.Contains(s.Fault, c.fault) {
				t.Errorf("got %+v, want %d lost, %d repeated, %q", s, c.lost, c.repeated, c.fault)
			}
			if len(s.Groups) == 0 || s.Groups[0].Group != 1 || s.Groups[0].Sent != s.Sent {
				t.Errorf("groups %+v", s.Groups)
			}
		})
	}
}
