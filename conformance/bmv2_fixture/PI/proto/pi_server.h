// What bmv2's tests ask the server in their process; main.cpp asks the switch.
#pragma once
#include <cstdint>

uint64_t PIGrpcServerGetPacketOutCount(uint64_t device_id);
uint64_t PIGrpcServerGetPacketInCount(uint64_t device_id);
