// SPDX-License-Identifier: GPL-2.0

#include <linux/netfilter.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/sock.h>

/*
 * Returns whether this is a UDP datagram to that port which a process sent through a socket whose headers the kernel
 * builds. Extension headers may precede the UDP header. A packet that IPsec has transformed has the same socket, but is
 * not UDP any more.
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
