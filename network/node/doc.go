// Package node is an application that is the node controller of each switch: it owns the flow entries that other
// applications ask for with model.Change, and answers when the switch has confirmed them. Its rows are what a switch is
// to have. A change that the switch has not confirmed has a row, and one with what undoes it. They belong to the
// switch, so they live in its group, and move with it.
//
// A switch that comes up gets all of its entries again, and loses all other entries of this package, before that is
// told with model.NodeUp. So what a switch was asked for and did not confirm is undone.
//
// An entry that names a backup port has a fast-failover group of its own. The group is a new one each time that the
// entry is sent, and the one before is deleted then.
//
// About once a minute a switch is compared with the rows (package reconcile). An entry that is missing is told to its
// owner with model.Removed, as is one that the switch reports as removed. One that differs is installed again, and one
// with the mark of this package that no row has is removed. The same holds for groups. Those of others stay.
//
// The southbound translates all versions of OpenFlow to 1.3 and notices when a switch is lost. So the driver is one
// file, and this package sends no pings. It decides nothing about paths, and finds nothing out about the network.
package node
