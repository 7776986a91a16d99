package app

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// Explain implements ledger.Explainer, for handlers of messages: those given to Handle, HandleEmitted and HandleCall.
func (a *App) Explain() []ledger.Mapping { return a.mappings }

// explain notes which cells the handler needs for any message, according to those for an empty one.
func (f *function[M]) explain(kind ledger.InputKind, typ uint8, name string) {
	c := f.ofEmpty()
	m := ledger.Mapping{Kind: kind, Type: typ, Name: name, Handler: f.handler, Whole: f.app.tx.whole,
		Unmapped: f.cells == nil && len(f.app.tables) > 0}
	if c.kind == needed {
		for _, p := range c.parts {
			m.All = append(m.All, p.name)
		}
		for _, cell := range slices.Concat(c.few[:c.n], c.many) {
			if t := cell.table; t.split == together && !slices.Contains(m.Undivided, t.name) {
				m.Undivided = append(m.Undivided, t.name)
			}
		}
	}
	f.app.mappings = append(f.app.mappings, m)
}
