"""What os-ken makes of OpenFlow 1.3: a filter from lines to lines.

In:  {"name": sample, "wire": hex}
Out: {"parsed": what os-ken reads in it, or null, "built": the hex of the same message
      made by os-ken, or null, "error": text or ""}

os-ken is a controller: it parses what switches send, and builds what controllers send.
"""
import json
import logging
import sys

from os_ken.ofproto import ofproto_parser, ofproto_protocol
from os_ken.ofproto import ofproto_v1_3 as o
from os_ken.ofproto import ofproto_v1_3_parser as p

logging.disable(logging.CRITICAL)
D = ofproto_protocol.ProtocolDesc(version=4)
A, B = '02:00:00:00:00:0a', '02:00:00:00:00:0b'
FRAME = bytes.fromhex('02000000000b02000000000a88b5') + b'hello, this is a frame that is padded to 60 byte'


def out(port, max_len=0):
    return p.OFPActionOutput(port, max_len)


def every_action():
    return [out(1), out(o.OFPP_CONTROLLER, 0xffff), p.OFPActionCopyTtlOut(), p.OFPActionCopyTtlIn(),
            p.OFPActionPushMpls(0x8847), p.OFPActionSetField(mpls_label=99), p.OFPActionSetMplsTtl(64),
            p.OFPActionDecMplsTtl(), p.OFPActionPopMpls(0x0800), p.OFPActionPushVlan(0x8100),
            p.OFPActionSetField(vlan_vid=0x1005), p.OFPActionPopVlan(), p.OFPActionSetQueue(7),
            p.OFPActionGroup(5), p.OFPActionSetNwTtl(32), p.OFPActionDecNwTtl(),
            p.OFPActionSetField(eth_dst=B), p.OFPActionPushPbb(0x88e7), p.OFPActionPopPbb()]


def every_ovs_action():
    unknown = (p.OFPActionCopyTtlOut, p.OFPActionCopyTtlIn, p.OFPActionPushPbb, p.OFPActionPopPbb)
    actions = [a for a in every_action() if not isinstance(a, unknown)]
    actions[1].max_len = 128
    return actions


def tcp_match():
    return p.OFPMatch(in_port=3, eth_dst=A, eth_type=0x0800, vlan_vid=0x1005, ip_proto=6,
                      ipv4_src=('10.1.0.0', '255.255.0.0'), ipv4_dst='10.0.0.1', tcp_dst=80)


def every_instruction():
    return [p.OFPInstructionMeter(1),
            p.OFPInstructionActions(o.OFPIT_APPLY_ACTIONS, [p.OFPActionDecNwTtl(), out(2)]),
            p.OFPInstructionActions(o.OFPIT_CLEAR_ACTIONS, []),
            p.OFPInstructionActions(o.OFPIT_WRITE_ACTIONS, [out(3)]),
            p.OFPInstructionWriteMetadata(0x10, 0xff),
            p.OFPInstructionGotoTable(4)]


def group(command, kind, number, *buckets):
    return p.OFPGroupMod(D, command, kind, number, list(buckets))


def match(**fields):
    return p.OFPFlowMod(D, priority=1, out_port=o.OFPP_ANY, out_group=o.OFPG_ANY, match=p.OFPMatch(**fields),
                        instructions=[])


def echo():
    m = p.OFPEchoRequest(D)
    m.data = b'are you there'
    return m


SELECTION = dict(table_id=o.OFPTT_ALL, out_port=o.OFPP_ANY, out_group=o.OFPG_ANY, cookie=0xc0, cookie_mask=0xf0)

BUILD = {
    'error': lambda: p.OFPErrorMsg(D, o.OFPET_BAD_MATCH, o.OFPBMC_BAD_PREREQ, FRAME),
    'echo request': echo,
    'experimenter': lambda: p.OFPExperimenter(D, 0x4f4e4600, 2300, b'\0\0\0\2\0\0\0\0'),
    'features request': lambda: p.OFPFeaturesRequest(D),
    'get config request': lambda: p.OFPGetConfigRequest(D),
    'set config': lambda: p.OFPSetConfig(D, o.OFPC_FRAG_DROP, 0xffff),
    'packet out': lambda: p.OFPPacketOut(D, o.OFP_NO_BUFFER, o.OFPP_CONTROLLER, [out(o.OFPP_FLOOD)], FRAME),
    'packet out all': lambda: p.OFPPacketOut(D, o.OFP_NO_BUFFER, 3, every_action(), FRAME),
    'packet out ovs': lambda: p.OFPPacketOut(D, o.OFP_NO_BUFFER, 3, every_ovs_action()),
    'packet out buffered': lambda: p.OFPPacketOut(D, 77, 3, [out(o.OFPP_TABLE)]),
    'flow add': lambda: p.OFPFlowMod(
        D, cookie=0xc00c1e, table_id=1, idle_timeout=10, hard_timeout=20, priority=100, out_port=o.OFPP_ANY,
        out_group=o.OFPG_ANY, flags=o.OFPFF_SEND_FLOW_REM, match=tcp_match(), instructions=every_instruction()),
    'flow delete': lambda: p.OFPFlowMod(
        D, cookie_mask=0xff, table_id=o.OFPTT_ALL, command=o.OFPFC_DELETE, priority=0, out_port=2,
        out_group=o.OFPG_ANY, match=p.OFPMatch(), instructions=[]),
    'match link': lambda: match(
        in_port=1, metadata=(0x1200, 0xff00), eth_dst=('01:00:00:00:00:00', '01:00:00:00:00:00'),
        eth_src=(A, 'ff:ff:ff:ff:ff:00'), eth_type=0x88b5, vlan_vid=(0x1000, 0x1000), vlan_pcp=5,
        tunnel_id=(0x77, 0xff)),
    'match physical': lambda: match(in_port=1, in_phy_port=2),
    'match udp': lambda: match(eth_type=0x0800, ip_dscp=46, ip_ecn=1, ip_proto=17, ipv4_src='192.168.0.1',
                               ipv4_dst=('10.0.0.0', '255.0.0.255'), udp_src=68, udp_dst=67),
    'match sctp': lambda: match(eth_type=0x0800, ip_proto=132, sctp_src=1, sctp_dst=2),
    'match icmp': lambda: match(eth_type=0x0800, ip_proto=1, icmpv4_type=8, icmpv4_code=0),
    'match arp': lambda: match(eth_type=0x0806, arp_op=1, arp_spa='10.0.0.1', arp_tpa=('10.0.0.0', '255.255.255.0'),
                               arp_sha=A, arp_tha=B),
    'match tcp6': lambda: match(eth_type=0x86dd, ip_proto=6, tcp_src=80, tcp_dst=443,
                                ipv6_src=('2001:db8::', 'ffff:ffff::'), ipv6_dst='2001:db8::1',
                                ipv6_flabel=(0x12345, 0xfffff)),
    'match exthdr': lambda: match(eth_type=0x86dd, ipv6_exthdr=(0x41, 0x1ff)),
    'match nd': lambda: match(eth_type=0x86dd, ip_proto=58, icmpv6_type=135, icmpv6_code=0, ipv6_nd_target='fe80::1',
                              ipv6_nd_sll=A),
    'match na': lambda: match(eth_type=0x86dd, ip_proto=58, icmpv6_type=136, ipv6_nd_target='fe80::1', ipv6_nd_tll=B),
    'match mpls': lambda: match(eth_type=0x8847, mpls_label=0xfffff, mpls_tc=7, mpls_bos=1),
    'match pbb': lambda: match(eth_type=0x88e7, pbb_isid=(0x123400, 0xffff00)),
    'port mod': lambda: p.OFPPortMod(D, 4, A, 1, 0x21, 0x40),
    'table mod': lambda: p.OFPTableMod(D, o.OFPTT_ALL, 3),
    'group add': lambda: group(
        o.OFPGC_ADD, o.OFPGT_FF, 5, p.OFPBucket(0, 1, o.OFPG_ANY, [out(1)]),
        p.OFPBucket(0, 2, o.OFPG_ANY, [p.OFPActionSetField(eth_src=B), out(2)])),
    'group select': lambda: group(
        o.OFPGC_MODIFY, o.OFPGT_SELECT, 6, p.OFPBucket(7, actions=[out(1)]), p.OFPBucket(3, actions=[out(2)])),
    'group indirect': lambda: group(o.OFPGC_ADD, o.OFPGT_INDIRECT, 7, p.OFPBucket(0, actions=every_action())),
    'group delete': lambda: group(o.OFPGC_DELETE, o.OFPGT_ALL, o.OFPG_ALL),
    'meter add': lambda: p.OFPMeterMod(D, o.OFPMC_ADD, o.OFPMF_KBPS | o.OFPMF_BURST, 3, [
        p.OFPMeterBandDrop(1000, 100), p.OFPMeterBandDscpRemark(500, 50, 1)]),
    'meter delete': lambda: p.OFPMeterMod(D, o.OFPMC_DELETE, 0, o.OFPM_ALL, []),
    'barrier request': lambda: p.OFPBarrierRequest(D),
    'queue config request': lambda: p.OFPQueueGetConfigRequest(D, 2),
    'role request': lambda: p.OFPRoleRequest(D, o.OFPCR_ROLE_MASTER, 0x8000000000000001),
    'get async request': lambda: p.OFPGetAsyncRequest(D),
    'set async': lambda: p.OFPSetAsync(D, [7, 1], [7, 2], [15, 4]),
    'request DESC': lambda: p.OFPDescStatsRequest(D),
    'request FLOW': lambda: p.OFPFlowStatsRequest(D, match=tcp_match(), **SELECTION),
    'request AGGREGATE': lambda: p.OFPAggregateStatsRequest(D, 0, match=tcp_match(), **SELECTION),
    'request TABLE': lambda: p.OFPTableStatsRequest(D),
    'request PORT_STATS': lambda: p.OFPPortStatsRequest(D, 0, 4),
    'request QUEUE': lambda: p.OFPQueueStatsRequest(D),
    'request GROUP': lambda: p.OFPGroupStatsRequest(D, 0, 5),
    'request GROUP_DESC': lambda: p.OFPGroupDescStatsRequest(D),
    'request GROUP_FEATURES': lambda: p.OFPGroupFeaturesStatsRequest(D),
    'request METER': lambda: p.OFPMeterStatsRequest(D, 0, 3),
    'request METER_CONFIG': lambda: p.OFPMeterConfigStatsRequest(D),
    'request METER_FEATURES': lambda: p.OFPMeterFeaturesStatsRequest(D),
    'request TABLE_FEATURES': lambda: p.OFPTableFeaturesStatsRequest(D),
    'request PORT_DESC': lambda: p.OFPPortDescStatsRequest(D),
    'request EXPERIMENTER': lambda: p.OFPExperimenterStatsRequest(D, 0, 0x4f4e4600, 1, b'data'),
}


def answer(name, wire):
    result = {'parsed': None, 'built': None, 'error': ''}
    try:
        version, kind, length, xid = ofproto_parser.header(wire)
        if name in BUILD:
            m = BUILD[name]()
            m.set_xid(xid)
            m.serialize()
            result['built'] = bytes(m.buf).hex()
        else:
            m = ofproto_parser.msg(D, version, kind, length, xid, wire)
            result['parsed'] = m and m.to_jsondict()
    except Exception as e:
        result['error'] = repr(e)
    return result


for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps(answer(request['name'], bytes.fromhex(request['wire']))), flush=True)
