package command

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/internal/pki"
)

func pkiCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pki",
		Short: "Make the certificates of a cluster",
		Long: `Make the certificates of a cluster that has no certificate authority of its own.

The authority is a folder. Keep it where only you can read it. Copy ca.pem to each machine, with
the certificates and keys of what runs there, but never ca-key.pem. A certificate contains the role and the
name of its holder; controllers have their names of the cluster file. Processes notice changed
files by themselves.`,
		Example: `  holdfast pki init
  holdfast pki issue controller c1
  holdfast pki issue agent a1
  holdfast pki issue switch s1
  holdfast pki issue operator operator
  holdfast pki issue admin admin
  holdfast pki renew c1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(pkiInitCommand(), pkiIssueCommand(), pkiRenewCommand())
	return cmd
}

// authorityFlag is the folder of the authority.
func authorityFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", "pki", "folder of the authority")
}

func daysFlag(cmd *cobra.Command, days *int) {
	cmd.Flags().IntVar(days, "days", pki.DefaultDays, "until it expires")
}

func pkiInitCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make a certificate authority",
		Long: `Make a certificate authority: a folder with its certificate, ca.pem, and its key, ca-key.pem. Anyone
who has that key can act as a controller. The authority is valid for ten years. Nothing is overwritten.`,
		Example: `  holdfast pki init --dir pki`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := pki.Init(dir, time.Now()); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s  copy it to every machine\n%s  keep it secret\n",
				pki.CertFile(dir, pki.AuthorityName), pki.KeyFile(dir, pki.AuthorityName))
			return err
		},
	}
	authorityFlag(cmd, &dir)
	return cmd
}

func pkiIssueCommand() *cobra.Command {
	var dir string
	var r pki.Request
	var switches []string
	cmd := &cobra.Command{
		Use:   "issue {controller | agent | switch | viewer | operator | admin | client} NAME",
		Short: "Issue a certificate",
		Long: `Issue a certificate and its key, as NAME.pem and NAME-key.pem in the folder of the authority.
Nothing is overwritten. The NAME of a controller is that of the cluster file; choose the others freely.

  controller  accepts all others, and connects to other controllers
  agent       connects to controllers, and accepts switches
  switch      connects to agents and controllers; with --address, controllers may connect to its database
  viewer      reads: holdfast status, topology, store get, …
  operator    also changes what the cluster does: holdfast drain, move, pin, store put, …
  admin       also changes its members: holdfast member
  client      uses the applications that controllers serve over HTTP, such as the store

Holdfast checks role and name, not addresses: except for a switch, --address is for other software.
With --switch, the holder speaks for no other switches than these.`,
		Example: `  holdfast pki issue controller c1
  holdfast pki issue switch s1 --switch 00000000000000a1 --days 3650
  holdfast pki issue switch s2 --address 10.0.0.12
  holdfast pki issue controller c2 --address 10.0.0.2 --address c2.example.org`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Identity = pki.Identity{Role: pki.Role(args[0]), Name: args[1]}
			for _, text := range switches {
				id, err := parseDatapathID(text)
				if err != nil {
					return err
				}
				r.Switches = append(r.Switches, id)
			}
			if err := pki.Issue(dir, r, time.Now()); err != nil {
				return err
			}
			return printIssued(cmd.OutOrStdout(), dir, r.Identity)
		},
	}
	authorityFlag(cmd, &dir)
	daysFlag(cmd, &r.Days)
	cmd.Flags().StringSliceVar(&switches, "switch", nil,
		"datapath id for which a switch or an agent may speak; may be repeated (without it: any)")
	cmd.Flags().StringSliceVar(&r.Addresses, "address", nil, "IP address or host name of the holder; may be repeated")
	return cmd
}

func printIssued(out io.Writer, dir string, id pki.Identity) error {
	cert, key := pki.CertFile(dir, id.Name), pki.KeyFile(dir, id.Name)
	_, err := fmt.Fprintf(out, "%s  certificate of %s\n%s  its key, secret: move it to where it is used\n", cert, id,
		key)
	if err == nil && id.Role == pki.Switch {
		_, err = fmt.Fprintf(out, "\nwith Open vSwitch, on its machine and with full paths:\n  ovs-vsctl set-ssl "+
			"%s %s %s\n  ovs-vsctl set-controller BRIDGE ssl:ADDRESS\n",
			key, cert, pki.CertFile(dir, pki.AuthorityName))
	}
	return err
}

func pkiRenewCommand() *cobra.Command {
	var dir string
	var days int
	cmd := &cobra.Command{
		Use:   "renew NAME",
		Short: "Renew a certificate before it expires",
		Long: `Replace the certificate NAME.pem in the folder of the authority by one for the same
holder and the same key that expires later. Copy it to its machine: the process there uses it from its next connection
on, without a restart. To replace a key as well, remove both files and issue anew.`,
		Example: `  holdfast pki renew c1`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := pki.Renew(dir, args[0], days, time.Now()); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s  renewed for %d days\n", pki.CertFile(dir, args[0]), days)
			return err
		},
	}
	authorityFlag(cmd, &dir)
	daysFlag(cmd, &days)
	return cmd
}
