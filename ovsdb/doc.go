// Package ovsdb configures and monitors BFD on the ports of an Open vSwitch through the switch's database. It
// implements the part of RFC 7047 that this needs; section numbers in this package refer to that RFC.
//
//	c, err := ovsdb.New(ovsdb.Config{Remote: "tcp:10.0.0.1:6640", Logger: log})
//	go c.Run(ctx)                       // connects, and reconnects
//	<-c.Changed()
//	view, err := c.View()               // bridges, interfaces, their BFD
//	port, ok := view.Port(datapathID, 3)
//	err = c.SetBFD(ctx, port, ovsdb.BFD{MinTx: 5 * time.Millisecond, MinRx: 5 * time.Millisecond})
//	err = c.ClearBFD(ctx, port)         // removes only what SetBFD has set
//
// The codec (split.go, value.go, message.go) and the copy of the database (tables.go) are pure; client.go and
// session.go do the I/O.
//
// It is not a general client: it replicates three tables of the database Open_vSwitch, and writes two columns of one.
package ovsdb
