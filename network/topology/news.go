package topology

import "github.com/holdfast-sdn/holdfast/app"

// What the actors of this application tell each other. The actor of a switch knows its ports, and whose probes arrive
// there. The actor of the graph knows links and hosts. A link comes up, and goes down, in these steps:
//
//	heard            the receiving switch tells the graph that probes begin to arrive, or arrive no more
//	asked            the graph asks the sending switch
//	found            which confirms that the probe is recent and its port unchanged since,
//	lost or unsure   or that it has sent some that did not arrive, or not enough to know
//	dismissed        the graph tells the receiver if there is no link, or no link any more
//
// After dismissed the receiver forgets whose probes arrive at the port, so that the next one is heard again. Nothing is
// told about the further probes of a link: they stay in the receiver's group. The graph is between the two switches
// because each knows where it lives, and so that whatever concerns a link reaches it in one order.
type (
	// joined: a switch is up, with all its ports. It is repeated if there are more.
	joined struct {
		_      struct{} `cbor:",toarray"`
		Switch app.Switch
		Ports  []portNews
	}
	// left: a switch is down, with all its ports.
	left struct {
		_      struct{} `cbor:",toarray"`
		Switch app.Switch
		Ports  []portNews
	}
	// changed: a port is new, came up, went down or was removed.
	changed struct {
		_      struct{} `cbor:",toarray"`
		Switch app.Switch
		Port   portNews
	}
	// welcome is the answer to joined: the key of the probes.
	welcome struct {
		_      struct{} `cbor:",toarray"`
		Switch app.Switch
		Key    []byte
	}

	heard struct {
		_                  struct{} `cbor:",toarray"`
		From, To           app.PortOf
		FromSince, ToSince uint64 // see portRow.Since
		Seq                uint64 // of the probe; the last one if it is silent
		Silent             bool   // probes arrive no more
	}
	asked heard
	found heard
	lost  heard
	// unsure is the answer if the sender has not sent enough probes since the last that arrived.
	unsure heard
	// dismissed: what was heard with Seq is no link, or no link any more.
	dismissed struct {
		_        struct{} `cbor:",toarray"`
		From, To app.PortOf
		Seq      uint64
		Again    bool // it is one: listen on
		Rejected Rejected
	}
)

// portNews is a port as the graph needs it.
type portNews struct {
	_       struct{} `cbor:",toarray"`
	Port    app.Port
	Up      bool
	Removed bool
	Since   uint64 // see portRow
	// whose probes arrived until now, and the number of the last one
	From app.PortOf
	Seq  uint64
}

func dismiss(tx *app.Tx, h heard, r Rejected) error {
	return app.Emit(tx, dismissed{From: h.From, To: h.To, Seq: h.Seq, Rejected: r})
}
