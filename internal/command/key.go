package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// keyFlags name the key of an actor. Without any, it is the actor without a key.
type keyFlags struct {
	text, bucket string
	number       uint64
}

// add adds the flags to a command. At most one of them can be given, or one of the others.
func (f *keyFlags) add(cmd *cobra.Command, others ...string) {
	cmd.Flags().StringVar(&f.text, "key", "", "the key of the actor, if it is a text")
	cmd.Flags().Uint64Var(&f.number, "number", 0, "the key of the actor, if it is a number")
	cmd.Flags().StringVar(&f.bucket, "bucket", "", "the bucket, as holdfast actors shows it, if it has those")
	cmd.MarkFlagsMutuallyExclusive(append([]string{"key", "number", "bucket"}, others...)...)
}

func (f *keyFlags) key() (ledger.Key, error) {
	if f.bucket != "" {
		return parseBucket(f.bucket)
	}
	return ledger.Key{A: f.number, S: f.text}, nil
}

// parseBucket reads a bucket as holdfast actors shows it.
func parseBucket(text string) (k ledger.Key, err error) {
	if _, err := fmt.Sscanf(text, "%x/%d", &k.A, &k.B); err != nil || k.String() != text {
		return k, fmt.Errorf("bucket %q: give it as holdfast actors shows it, such as 1f/64", text)
	}
	return k, nil
}
