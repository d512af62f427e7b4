// SPDX-License-Identifier: GPL-2.0

#include <uapi/rdma/ferroce-abi.h>

#define UVERBS_MODULE_NAME ferroce_helper
#include <rdma/uverbs_named_ioctl.h>

/* What the driver adds to the methods of the core, in the form that the core reads. */
#ifdef FERROCE_HAS_COMP_CNTR

ADD_UVERBS_ATTRIBUTES_SIMPLE(ferroce_helper_create_comp_cntr, UVERBS_OBJECT_COMP_CNTR,
			     UVERBS_METHOD_COMP_CNTR_CREATE,
			     UVERBS_ATTR_CONST_IN(FERROCE_ATTR_CREATE_COMP_CNTR_TYPE,
						  enum ferroce_comp_cntr_type, UA_OPTIONAL));

static const struct uapi_definition comp_cntr_definition[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_COMP_CNTR, &ferroce_helper_create_comp_cntr),
	{}
};

const struct uapi_definition *ferroce_helper_comp_cntr_definition(void)
{
	return comp_cntr_definition;
}

int ferroce_helper_comp_cntr_type(const struct uverbs_attr_bundle *attrs, u32 *type)
{
	return uverbs_get_const_default(type, attrs, FERROCE_ATTR_CREATE_COMP_CNTR_TYPE,
					FERROCE_COMP_CNTR_WRS);
}

#endif
