// Command model checks Holdfast's exactly-once protocol with spin, exhaustively for small networks:
// agent.pml, stock.pml, streams.pml and moves.pml must hold, and each variant that lacks one mechanism must be refuted.
// It checks the protocol as it is written down, not the code: that is what sim is for.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("model", flag.ContinueOnError)
	large := flags.Bool("large", false, "also check the large configurations (some minutes more, 8 GiB)")
	write := flags.Bool("write", false, "write the counterexamples to docs/counterexamples")
	asJSON := flags.Bool("json", false, "print one JSON object a line")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c, err := newChecker(progress)
	if err != nil {
		return err
	}
	defer c.close()
	failed := 0
	for _, v := range variants {
		if v.large && !*large {
			continue
		}
		r, err := c.check(ctx, v)
		if err != nil {
			return fmt.Errorf("check %s: %w", v.name, err)
		}
		if *asJSON {
			err = json.NewEncoder(out).Encode(r)
		} else {
			_, err = fmt.Fprintln(out, r)
		}
		if err == nil && *write && r.Broken != "" && v.refuted != "" {
			err = os.WriteFile(filepath.Join("docs", "counterexamples", v.name+".md"), []byte(v.text(r)), 0o644)
		}
		if err != nil {
			return err
		}
		if r.Problem != "" {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of the results are not what the design says", failed)
	}
	return nil
}
