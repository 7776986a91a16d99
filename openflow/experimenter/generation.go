package experimenter

// A generation_id says who claims a switch, and how:
//
//	version of the assignment u16 | term of the leader u36 | path u12
//
// The version is that of the assignment of the switch to a group. Terms of different groups are not comparable, so the
// leader of a group to which the switch has moved claims it with a higher version. The path is the number of the path
// on which this leader claims the switch. So a switch accepts the claims of all groups, of all leaders of a group, and
// of one leader on its paths, in their order only. See docs/decisions/0047-the-version-precedes-the-term.md.
const (
	pathBits = 12
	termBits = 36
)

// MaxPath is the highest number of a path. Later paths of the same term have the same number.
const MaxPath = 1<<pathBits - 1

// Generation returns the generation_id of a claim. Only the lowest 36 bits of the term and the lowest 16 of the version
// are contained. Without a term there is no generation, and the result is 0.
func Generation(version, term, path uint64) uint64 {
	if term == 0 {
		return 0
	}
	return version<<(termBits+pathBits) | term&(1<<termBits-1)<<pathBits | min(path, MaxPath)
}

// Term returns the term of a generation_id.
func Term(generation uint64) uint64 { return generation >> pathBits & (1<<termBits - 1) }

// Version returns the version of the assignment in a generation_id.
func Version(generation uint64) uint16 { return uint16(generation >> (termBits + pathBits)) }

// Later reports whether generation a follows b, as switches compare them: by the sign of the difference. So the order
// goes on when the versions begin again at 0.
func Later(a, b uint64) bool { return int64(a-b) > 0 }
