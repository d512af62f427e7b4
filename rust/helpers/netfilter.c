// SPDX-License-Identifier: GPL-2.0

#include <linux/netfilter.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/netfilter/nf_conntrack.h>
#include <net/sock.h>
#include <net/xfrm.h>

/* Not tracked, or tracked and known. */
bool ferroce_helper_nf_ct_is_settled(const struct sk_buff *skb)
{
	enum ip_conntrack_info info;
	const struct nf_conn *ct = nf_ct_get(skb, &info);

	return !ct || nf_ct_is_confirmed(ct);
}

bool ferroce_helper_xfrm_policy_check(struct sk_buff *skb, bool v4)
{
	return v4 ? xfrm4_policy_check(NULL, XFRM_POLICY_IN, skb) :
		    xfrm6_policy_check(NULL, XFRM_POLICY_IN, skb);
}

/*
 * Whether a process has sent this to that port of UDP, by a socket that leaves the headers to the kernel. There
 * may be extension headers in front of the UDP header; and SCTP may go within UDP.
 */
bool ferroce_helper_is_datagram_to(const struct sk_buff *skb, const struct sock *sk, bool v4, u16 port)
{
	u8 protocol;

	if (!sk || !sk_fullsock(sk) || sk->sk_kern_sock || sk->sk_type == SOCK_RAW)
		return false;
	protocol = v4 ? ip_hdr(skb)->protocol : ipv6_hdr(skb)->nexthdr;
	if (protocol != IPPROTO_UDP && !sk_is_udp(sk))
		return false;
	return skb_transport_header_was_set(skb) && udp_hdr(skb)->dest == htons(port);
}
