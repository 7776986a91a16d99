// Package ovsdb sets up BFD on the ports of an Open vSwitch, and watches it, through the switch's database: the little
// of RFC 7047 that this needs (section numbers in this package are of that document).
//
//	c, err := ovsdb.New(ovsdb.Config{Remote: "tcp:10.0.0.1:6640", Logger: log})
//	go c.Run(ctx)                       // connects, and again when it must
//	<-c.Changed()
//	view, err := c.View()               // bridges, interfaces, their BFD
//	port, ok := view.Port(datapathID, 3)
//	err = c.SetBFD(ctx, port, ovsdb.BFD{MinTx: 5 * time.Millisecond, MinRx: 5 * time.Millisecond})
//	err = c.ClearBFD(ctx, port)         // removes what SetBFD has set, and nothing else
//
// The codec (split.go, value.go, message.go) and the copy of the database (tables.go) are pure; client.go and
// session.go do the I/O.
//
// It is not a general client: it copies three tables of the database Open_vSwitch and changes two columns of one.
package ovsdb
