// SPDX-License-Identifier: GPL-2.0

#include <net/netlink.h>

void ferroce_helper_nla_nest_cancel(struct sk_buff *msg, struct nlattr *start)
{
	nla_nest_cancel(msg, start);
}

void ferroce_helper_nla_nest_end(struct sk_buff *msg, struct nlattr *start)
{
	nla_nest_end(msg, start);
}

struct nlattr *ferroce_helper_nla_nest_start(struct sk_buff *msg, int type)
{
	return nla_nest_start(msg, type);
}
