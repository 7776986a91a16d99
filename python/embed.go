// Package python is the code of holdfast_ryu, the host of Ryu applications, as this release of Holdfast has it. It is
// not what runs it: that is package ryu.
package python

import "embed"

// Code is the files of the Python package, below the folder holdfast_ryu.
//
//go:embed holdfast_ryu/*.py holdfast_ryu/*/*.py
var Code embed.FS
