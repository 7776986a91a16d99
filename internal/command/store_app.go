package command

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/store/client"
	"github.com/holdfast-sdn/holdfast/store/onstore"
)

func storeApp(f *storeFlags) *cobra.Command {
	var listen, variant string
	var vips []string
	cmd := &cobra.Command{
		Use:   "app learning|balancer|devices",
		Short: "Run a control application whose state is in the store",
		Long: `Run a control application in a process of its own: a learning switch, a load balancer or a device
manager. Switches connect to it with OpenFlow 1.3. All of its state is in the store, so it may run several
times, and be killed at any time. They are those of the paper, in its variants: init, cref, vers, cols, micro
and cache. All processes of an application have the same variant.

A virtual address of the balancer is IP/MAC=MEMBER,MEMBER… and a member is IP/MAC@PORT, with its port of
the switch.`,
		Example: `  holdfast store app learning --listen 127.0.0.1:6700
  holdfast store app balancer --listen 127.0.0.1:6701 --vip 10.0.0.100/020100000064=10.0.0.2/020000000002@2`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			collectLess()
			c, err := f.client()
			if err != nil {
				return err
			}
			defer c.Close()
			cache, err := client.NewCache(c, onstore.CachedTables[args[0]]...)
			if err != nil {
				return err
			}
			defer cache.Close()
			a, err := onstore.New(args[0], onstore.Variant(variant), c, cache)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			if err := a.Setup(ctx); err != nil {
				return err
			}
			for _, v := range vips {
				at, mac, members, err := parseVIP(v)
				if err == nil {
					err = onstore.AddVIP(ctx, a, at, mac, members)
				}
				if err != nil {
					return fmt.Errorf("--vip %s: %w", v, err)
				}
			}
			cluster, err := loadCluster(f.file)
			if err != nil {
				return err
			}
			l, err := listenForSwitches(listen, cluster.Insecure)
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			log.Info("serving switches", "app", args[0], "variant", variant, "openflow", l.Addr())
			return onstore.Serve(ctx, l, a, log)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:6653", "where switches connect: an address, or unix:PATH")
	cmd.Flags().StringVar(&variant, "variant", string(onstore.Component), "how it uses the store")
	cmd.Flags().StringArrayVar(&vips, "vip", nil, "balancer: a virtual address and its members; may be repeated")
	return cmd
}

// collectLess has the garbage collector of a client of the store run less often: it keeps little, so it would run many
// times a second.
func collectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// parseVIP reads IP/MAC=MEMBER,MEMBER…
func parseVIP(s string) (at netip.Addr, mac of13.MAC, members []onstore.Member, err error) {
	first, rest, _ := strings.Cut(s, "=")
	if at, mac, err = parseHost(first); err != nil {
		return at, mac, nil, err
	}
	for m := range strings.SplitSeq(rest, ",") {
		host, port, _ := strings.Cut(m, "@")
		number, err := strconv.ParseUint(port, 10, 32)
		if err != nil {
			return at, mac, nil, fmt.Errorf("%q is no member: use IP/MAC@PORT", m)
		}
		ip, mac, err := parseHost(host)
		if err != nil {
			return at, mac, nil, err
		}
		members = append(members, onstore.Member{Address: ip, MAC: mac, Port: of13.Port(number)})
	}
	return at, mac, members, nil
}

// parseHost reads IP/MAC.
func parseHost(s string) (ip netip.Addr, mac of13.MAC, err error) {
	address, ether, _ := strings.Cut(s, "/")
	if ip, err = netip.ParseAddr(address); err != nil {
		return ip, mac, err
	}
	if mac, err = onstore.ParseMAC(ether); err != nil || !ip.Is4() {
		return ip, mac, fmt.Errorf("%q is no host: use IP/MAC, with an address of IPv4", s)
	}
	return ip, mac, nil
}
