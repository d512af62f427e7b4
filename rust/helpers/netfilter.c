// SPDX-License-Identifier: GPL-2.0

#include <linux/netfilter.h>
#include <net/netfilter/nf_conntrack.h>
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
