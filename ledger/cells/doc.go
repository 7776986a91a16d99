// Package cells is the tables of the ledger: ordered, compact, and copied in constant time. It is a data structure in
// memory, and knows no log, no transaction and no application.
//
// A table is a map of cells, and the fields of a cell are a map of their own, so that a cell moves from table to table
// as a whole. A map is divided into small buckets, which belong to the table that made them: a clone shares them, and
// the first change of one copies it. So a snapshot, or a loop whose body writes, makes nobody wait. Growth divides one
// bucket at a time. A cell that was read in order has its keys in a B+ tree from then on.
package cells
