// Package python is the Python code that this release of Holdfast has with it: holdfast_ryu, the host of Ryu
// applications, and the client of the store. It is not what runs the host: that is package ryu.
package python

import "embed"

// Code is the files of the Python package, below the folder holdfast_ryu.
//
//go:embed holdfast_ryu/*.py holdfast_ryu/*/*.py
var Code embed.FS

// Store is the module holdfast.store.
//
//go:embed holdfast/store.py
var Store string
