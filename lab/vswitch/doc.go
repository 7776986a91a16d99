// Package vswitch is a software OpenFlow 1.3 switch for tests, the demo, simulation and load generation (OpenFlow
// Switch Specification 1.3.5; section numbers in this package refer to it).
//
// Switch is a pure core: frames, messages and ticks go in; messages for controllers and
// frames for ports come out. It has no socket, clock, goroutine or lock, and the same inputs
// give the same outputs:
//
//	s := vswitch.New(vswitch.Config{DatapathID: 1, Ports: vswitch.Ports(1, 3)})
//	s.Connect(1)                      // a controller; the HELLO is in Pending(1)
//	s.Message(now, 1, msg)            // what it says
//	s.Frame(now, port, frame)         // what arrives at a port
//	s.Tick(now)                       // timeouts; with BFD also at s.Deadline()
//	out, open := s.Pending(1)         // bytes for the controller
//	s.Sent(1, len(out))
//	for _, f := range s.Frames() { … } // frames to transmit
//
// Runner gives a Switch its clock, connections and devices. Network joins runners and hosts by links in memory.
// OpenDevice and OpenTAP connect them to interfaces of Linux. Run is the process of such a switch.
//
// It is not a fast datapath, and does not support MPLS and PBB headers in actions (they can be matched), queues,
// OFPP_NORMAL, auxiliary connections, TLS, reassembly of fragments, and setting table features.
package vswitch
