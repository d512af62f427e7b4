// SPDX-License-Identifier: GPL-2.0

#include <linux/netfilter.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/ipv6.h>
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

/* Came by an interface of a VRF, or of another layer-3 master. */
bool ferroce_helper_skb_has_master(const struct sk_buff *skb, bool v4)
{
	return v4 ? inet_sdif(skb) : inet6_sdif(skb);
}

bool ferroce_helper_xfrm_policy_check(struct sk_buff *skb, bool v4)
{
	return v4 ? xfrm4_policy_check(NULL, XFRM_POLICY_IN, skb) :
		    xfrm6_policy_check(NULL, XFRM_POLICY_IN, skb);
}

/*
 * Whether a process has sent this to that port of UDP, by a socket that leaves the headers to the kernel. There may
 * be extension headers in front of the UDP header. What IPsec has made of a datagram comes with the same socket, and
 * is none any more.
 */
bool ferroce_helper_is_datagram_to(const struct sk_buff *skb, const struct sock *sk, bool v4, u16 port)
{
	const struct udphdr *udp;
	struct udphdr copy;
	__be16 fragment;
	u8 protocol;
	int offset;

	if (!sk || !sk_fullsock(sk) || sk->sk_kern_sock || sk->sk_type == SOCK_RAW)
		return false;
	if (v4) {
		protocol = ip_hdr(skb)->protocol;
		offset = skb_network_offset(skb) + ip_hdrlen(skb);
	} else {
		protocol = ipv6_hdr(skb)->nexthdr;
		offset = skb_network_offset(skb) + sizeof(struct ipv6hdr);
		offset = ipv6_skip_exthdr(skb, offset, &protocol, &fragment);
	}
	if (protocol != IPPROTO_UDP || offset < 0)
		return false;
	udp = skb_header_pointer(skb, offset, sizeof(copy), &copy);
	return udp && udp->dest == htons(port);
}
