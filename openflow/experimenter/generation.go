package experimenter

// A generation_id is the term of the leader, and below it the number of the path on which this leader claims the switch
// (docs/decisions/0040-a-generation-numbers-the-path.md). So a switch accepts the claims of all leaders, and of one
// leader on its paths, in their order only. Terms fit into 36 bits until 2187; the highest 16 bits are not used.
const pathBits = 12

// MaxPath is the highest number of a path. Later paths of the same term have the same number.
const MaxPath = 1<<pathBits - 1

// Generation returns the generation_id of a claim.
func Generation(term, path uint64) uint64 { return term<<pathBits | min(path, MaxPath) }

// Term returns the term of a generation_id.
func Term(generation uint64) uint64 { return generation >> pathBits }
