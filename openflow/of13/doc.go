// Package of13 is OpenFlow 1.3 on the wire (OpenFlow Switch Specification 1.3.5; section numbers in this package refer
// to it): every message between a controller and a switch, in both directions. It does no I/O, keeps no state, and does
// not check whether a command makes sense.
//
// Each message is a struct with Append, which appends the whole message to the caller's
// slice, and Decode, which reads one whole message. A decoded message is a view: its
// Match, Actions, Instructions, Buckets, Bands, Body and Data alias the input, and are valid as
// long as the input is. Neither direction allocates for the frequent messages.
//
// Variable parts are wire bytes that Decode has checked to the last nested length, and that are
// read by iterators, which therefore cannot fail; they are built by methods which return
// the longer slice:
//
//	m := of13.FlowMod{
//		Priority: 10, BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny,
//		Match:        of13.Match(nil).WithInPort(1).WithEthDst(mac),
//		Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Output(2, 0)),
//	}
//	out = m.Append(out, xid)
//
// A builder shares memory with what it extends, as append does: build two variants of one
// match from two copies.
//
// Decode returns an *openflow.Error for anything whose structure this package does not know: wrong lengths, and unknown
// types of messages, multipart bodies, instructions, actions and bands. It accepts any plain value (a command, a
// reason, a match field of another class, a missing prerequisite), because it is the switch that answers those;
// Match.Validate, Actions.Validate and Refusal compute these answers.
//
// Append panics if a message would exceed openflow.MaxMessageLen, and a builder if a value does not have the length of
// its field: those are programming errors.
package of13
