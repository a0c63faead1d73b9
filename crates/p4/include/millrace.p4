// What millrace has besides v1model: services (docs/services.md). Include it behind v1model.p4.

#ifndef _MILLRACE_P4_
#define _MILLRACE_P4_

/// Hands the packet, as it would leave, to the service of this name, and goes on with what it says, unless it
/// drops the packet: then nothing more is done. `register` is what SoftFlow calls `sf_metadata`; a service that
/// has nothing to say leaves it as it is. `coalesce`: what was looked up before still holds. A service that may
/// write packets drops those that come so.
extern void softflow(string name, in bit<32> argument, inout bit<64> register, out bit<1> coalesce);

/// The same for a service that may write the packet: behind it the packet has been parsed again. What the parser
/// does not assign to of the metadata stays.
extern void softflow_edit(string name, in bit<32> argument, inout bit<64> register, out bit<1> coalesce);

#endif
