package of13

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
)

func TestBundle(t *testing.T) {
	ctl := BundleControl{ID: 7, CtrlType: BundleCommitRequest, Flags: BundleAtomic | BundleOrdered}
	inner := (&FlowMod{Priority: 9, BufferID: NoBuffer}).Append(nil, 1)
	add := BundleAdd{ID: 7, Flags: BundleAtomic, Message: inner}
	var ctl2 BundleControl
	if err := ctl2.Decode(ctl.Append(nil, 5)); err != nil || ctl2 != ctl {
		t.Errorf("%+v, %v", ctl2, err)
	}
	var add2 BundleAdd
	if err := add2.Decode(add.Append(nil, 5)); err != nil || add2.ID != 7 || add2.Flags != BundleAtomic {
		t.Errorf("%+v, %v", add2, err)
	}
	if openflow.XID(add2.Message) != 5 || openflow.XID(inner) != 1 || !bytes.Equal(add2.Message[8:], inner[8:]) {
		t.Errorf("inside is %x, want %x with xid 5", add2.Message, inner)
	}
	for _, msg := range [][]byte{
		add.Append(nil, 1),
		(&Experimenter{ID: OnfID, ExpType: OnfBundleControl, Data: make([]byte, 7)}).Append(nil, 1),
		(&Experimenter{ID: 1, ExpType: OnfBundleControl, Data: make([]byte, 8)}).Append(nil, 1),
		(&BarrierRequest{}).Append(nil, 1),
	} {
		var e *openflow.Error
		if err := ctl2.Decode(msg); !errors.As(err, &e) {
			t.Errorf("%x: %v", msg, err)
		}
	}
	refused := Error{ErrType: ErrTypeExperimenter, Code: BundleMsgFailed, Data: []byte("ONF\x00and more")}
	if code, ok := refused.BundleError(); !ok || code != 2313 {
		t.Errorf("code %d, %v", code, ok)
	}
	refused.Data = refused.Data[1:]
	if _, ok := refused.BundleError(); ok {
		t.Error("an error of another experimenter is taken for one of bundles")
	}
}

func TestOracleOVSBundle(t *testing.T) {
	if _, err := exec.LookPath("ovs-ofctl"); err != nil {
		absent(t, "ovs-ofctl is not here: install Open vSwitch (package openvswitch-switch)")
	}
	flow := FlowMod{Priority: 9, BufferID: NoBuffer, OutPort: PortAny, OutGroup: GroupAny}
	for _, c := range []struct {
		m    Message
		want string
	}{
		{&BundleControl{7, BundleCommitRequest, BundleAtomic | BundleOrdered},
			"bundle_id=0x7 type=COMMIT_REQUEST flags=atomic ordered"},
		{&BundleControl{7, BundleDiscardReply, 0}, "bundle_id=0x7 type=DISCARD_REPLY flags=0"},
		{&BundleAdd{7, BundleOrdered, flow.Append(nil, 0)},
			"bundle_id=0x7 flags=ordered\nOFPT_FLOW_MOD (OF1.3) (xid=0x7): ADD priority=9"},
		{&Error{ErrTypeExperimenter, BundleInProgress, []byte("ONF\x00")}, "OFPBFC_BUNDLE_IN_PROGRESS"},
		{&Error{ErrTypeExperimenter, BundleUnknown, []byte("ONF\x00")}, "OFPBFC_UNKNOWN"},
	} {
		out, err := exec.Command("ovs-ofctl", "ofp-print", hex.EncodeToString(c.m.Append(nil, 7)), "2").Output()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("want %q, got %s (%v)", c.want, out, err)
		}
	}
}
