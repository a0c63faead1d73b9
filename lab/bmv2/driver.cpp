// Feeds bmv2's simple_switch from memory: commands on standard input, answers on standard output.
//
//     driver PROGRAM.json
//
// It is bmv2's own library without ports, Thrift or logs, so what is timed is the program's work. One
// command a line; bytes are hexadecimal, `-` is none. lab/p4_bmv2 writes the lines and reads the answers.
//
//     table_add TABLE ACTION PRIORITY KEYS ARGS     KEYS: kind:bytes[:bytes or prefix length],...
//     table_default TABLE ACTION ARGS               ARGS: bytes,...
//     table_ttl TABLE HANDLE MILLISECONDS
//     member PROFILE ACTION ARGS;  group PROFILE;  join PROFILE MEMBER GROUP
//     modify_member PROFILE ACTION MEMBER ARGS;  leave PROFILE MEMBER GROUP
//     indirect TABLE KEYS PRIORITY MEMBER;  indirect_group TABLE KEYS PRIORITY GROUP
//     meter NAME INDEX RATE BURST RATE BURST;  direct_meter TABLE HANDLE RATE BURST RATE BURST
//     register_write NAME INDEX VALUE;  register_read NAME INDEX
//     counter NAME INDEX;  direct_counter TABLE HANDLE
//     vset NAME BYTES;  vset_remove NAME BYTES
//     crc16 | crc32 NAME POLYNOMIAL INIT XOR REFLECT_IN REFLECT_OUT
//     mgid GROUP RID PORT,...;  mirror SESSION PORT
//     packet PORT BYTES                             answers are told when nothing has moved for a while
//     sleep MILLISECONDS
//     time FILE ROUNDS                              lines PORT BYTES; tells packets in, out, nanoseconds passed and used
//
// Told: `out PORT BYTES`, `digest LIST BYTES`, `idle TABLE HANDLE`, `value NUMBER...`, `failed LINE`; `done`
// ends the answer to each line.

#include <bm/bm_sim/ageing.h>
#include <bm/bm_sim/learning.h>
#include <bm/bm_sim/port_monitor.h>
#include <bm/bm_sim/simple_pre_lag.h>
#include <bm/bm_sim/transport.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "simple_switch.h"

namespace {

using bm::ActionData;
using bm::MatchErrorCode;
using bm::MatchKeyParam;
using Clock = std::chrono::steady_clock;

std::mutex told;
std::atomic<uint64_t> moved{0};
std::atomic<int64_t> moved_at{0};
bool quiet = false;

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

// What all threads have used of the processor, in nanoseconds.
int64_t cpu() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * 1'000'000'000ll + t.tv_nsec;
}

void tell(const std::string &line) {
  std::lock_guard<std::mutex> lock(told);
  std::cout << line << "\n";
}

std::string hex(const char *bytes, size_t n) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < n; i++) {
    text += digits[(bytes[i] >> 4) & 15];
    text += digits[bytes[i] & 15];
  }
  return text.empty() ? "-" : text;
}

std::string bytes(const std::string &text) {
  std::string out;
  if (text == "-") return out;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    out += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return out;
}

std::vector<std::string> split(const std::string &text, char at) {
  std::vector<std::string> parts;
  std::stringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

// Digests that wait for their acknowledgement: bmv2 tells of the same values again only after it.
std::vector<std::pair<int, uint64_t>> learned;

// Digests and idle entries come this way.
class Notes : public bm::TransportIface {
  using Learned = bm::LearnEngineIface::msg_hdr_t;
  using Aged = bm::AgeingMonitorIface::msg_hdr_t;
  static_assert(sizeof(Learned) == 32 && sizeof(Aged) == 32, "headers of 32 bytes");

  int note(const std::string &message) const {
    if (message.size() < 32 || quiet) return 0;
    const char *rest = message.data() + 32;
    size_t n = message.size() - 32;
    if (!std::memcmp(message.data(), "LEA|", 4)) {
      Learned h;
      std::memcpy(&h, message.data(), sizeof(h));
      if (!h.num_samples) return 0;
      size_t one = n / h.num_samples;
      for (unsigned i = 0; i < h.num_samples; i++)
        tell("digest " + std::to_string(h.list_id) + " " + hex(rest + i * one, one));
      std::lock_guard<std::mutex> lock(told);
      learned.emplace_back(int{h.list_id}, uint64_t{h.buffer_id});
      moved_at = now();
    } else if (!std::memcmp(message.data(), "AGE|", 4)) {
      Aged h;
      std::memcpy(&h, message.data(), sizeof(h));
      for (unsigned i = 0; i < h.num_entries; i++) {
        uint32_t handle;
        std::memcpy(&handle, rest + 4 * i, 4);
        tell("idle " + std::to_string(h.table_id) + " " + std::to_string(handle));
      }
    }
    return 0;
  }

  int open_() override { return 0; }
  int send_(const std::string &m) const override { return note(m); }
  int send_(const char *m, int n) const override { return note(std::string(m, n)); }
  int send_msgs_(const std::initializer_list<std::string> &all) const override {
    std::string whole;
    for (const auto &m : all) whole += m;
    return note(whole);
  }
  int send_msgs_(const std::initializer_list<MsgBuf> &all) const override {
    std::string whole;
    for (const auto &m : all) whole.append(m.buf, m.len);
    return note(whole);
  }
};

// Packets come and go by function calls; there are no ports.
class NoPorts : public bm::DevMgrIface {
 public:
  NoPorts() { p_monitor = bm::PortMonitorIface::make_dummy(); }

 private:
  ReturnCode port_add_(const std::string &, port_t, const PortExtras &) override {
    return ReturnCode::UNSUPPORTED;
  }
  ReturnCode port_remove_(port_t) override { return ReturnCode::UNSUPPORTED; }
  void transmit_fn_(port_t, const char *, int) override {}
  void start_() override {}
  ReturnCode set_packet_handler_(const PacketHandler &, void *) override {
    return ReturnCode::SUCCESS;
  }
  bool port_is_up_(port_t) const override { return true; }
  std::map<port_t, PortInfo> get_port_info_() const override { return {}; }
};

std::vector<MatchKeyParam> keys(const std::string &text) {
  std::vector<MatchKeyParam> out;
  if (text == "-") return out;
  for (const auto &key : split(text, ',')) {
    auto p = split(key, ':');
    auto value = bytes(p.at(1));
    if (p[0] == "exact")
      out.emplace_back(MatchKeyParam::Type::EXACT, value);
    else if (p[0] == "valid")
      out.emplace_back(MatchKeyParam::Type::VALID, value);
    else if (p[0] == "lpm")
      out.emplace_back(MatchKeyParam::Type::LPM, value, std::stoi(p.at(2)));
    else
      out.emplace_back(p[0] == "range" ? MatchKeyParam::Type::RANGE : MatchKeyParam::Type::TERNARY,
                       value, bytes(p.at(2)));
  }
  return out;
}

ActionData args(const std::string &text) {
  ActionData out;
  if (text == "-") return out;
  for (const auto &arg : split(text, ',')) {
    auto value = bytes(arg);
    out.push_back_action_data(value.data(), static_cast<int>(value.size()));
  }
  return out;
}

bm::Meter::rate_config_t rate(std::istream &in) {
  double rate;
  size_t burst;
  in >> rate >> burst;
  return bm::Meter::rate_config_t::make(rate, burst);
}

template <typename T>
typename bm::CustomCrcMgr<T>::crc_config_t crc(std::istream &in) {
  uint64_t p, i, x;
  int a, b;
  in >> p >> i >> x >> a >> b;
  return {static_cast<T>(p), static_cast<T>(i), static_cast<T>(x), a != 0, b != 0};
}

void settle(int64_t quiet_ns) {
  while (now() - moved_at.load() < quiet_ns)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  // Lives until the process ends: its threads wait for packets.
  auto *sw = new SimpleSwitch(false);
  auto notes = std::make_shared<Notes>();
  if (sw->init_objects(argv[1], 0, notes)) return 3;
  sw->set_dev_mgr(std::make_unique<NoPorts>());
  sw->set_all_egress_queue_depths(1u << 20);
  sw->set_transmit_fn([](bm::DevMgrIface::port_t port, packet_id_t, const char *data, int n) {
    if (!quiet) tell("out " + std::to_string(port) + " " + hex(data, n));
    moved++;
    moved_at = now();
  });
  sw->start_and_return();
  auto *pre = sw->get_component<bm::McSimplePreLAG>().get();
  if (auto *ageing = sw->get_ageing_monitor(0)) ageing->set_sweep_interval(200);
  auto *learning = sw->get_learn_engine(0);
  for (int list = 0; list < 16; list++) learning->list_set_timeout(list, 5);

  for (std::string line; std::getline(std::cin, line);) {
    std::stringstream in(line);
    std::string word, name, action, a, b;
    uint32_t index = 0, other = 0;
    int number = 0;
    bool ok = true;
    in >> word;
    if (word == "table_add") {
      in >> name >> action >> number >> a >> b;
      bm::entry_handle_t handle = 0;
      ok = sw->mt_add_entry(0, name, keys(a), action, args(b), &handle, number) ==
           MatchErrorCode::SUCCESS;
      tell("value " + std::to_string(handle));
    } else if (word == "table_default") {
      in >> name >> action >> b;
      ok = sw->mt_set_default_action(0, name, action, args(b)) == MatchErrorCode::SUCCESS;
    } else if (word == "table_ttl") {
      in >> name >> index >> other;
      ok = sw->mt_set_entry_ttl(0, name, index, other) == MatchErrorCode::SUCCESS;
    } else if (word == "member") {
      in >> name >> action >> b;
      ok = sw->mt_act_prof_add_member(0, name, action, args(b), &index) == MatchErrorCode::SUCCESS;
      tell("value " + std::to_string(index));
    } else if (word == "modify_member") {
      in >> name >> action >> index >> b;
      ok = sw->mt_act_prof_modify_member(0, name, index, action, args(b)) ==
           MatchErrorCode::SUCCESS;
    } else if (word == "group") {
      in >> name;
      ok = sw->mt_act_prof_create_group(0, name, &index) == MatchErrorCode::SUCCESS;
      tell("value " + std::to_string(index));
    } else if (word == "join" || word == "leave") {
      in >> name >> index >> other;
      ok = (word == "join" ? sw->mt_act_prof_add_member_to_group(0, name, index, other)
                           : sw->mt_act_prof_remove_member_from_group(0, name, index, other)) ==
           MatchErrorCode::SUCCESS;
    } else if (word == "indirect" || word == "indirect_group") {
      in >> name >> a >> number >> index;
      bm::entry_handle_t handle = 0;
      ok = (word == "indirect"
                ? sw->mt_indirect_add_entry(0, name, keys(a), index, &handle, number)
                : sw->mt_indirect_ws_add_entry(0, name, keys(a), index, &handle, number)) ==
           MatchErrorCode::SUCCESS;
      tell("value " + std::to_string(handle));
    } else if (word == "meter" || word == "direct_meter") {
      in >> name >> index;
      std::vector<bm::Meter::rate_config_t> rates;
      rates.push_back(rate(in));
      rates.push_back(rate(in));
      ok = word == "meter"
               ? sw->meter_set_rates(0, name, index, rates) == bm::Meter::SUCCESS
               : sw->mt_set_meter_rates(0, name, index, rates) == MatchErrorCode::SUCCESS;
    } else if (word == "register_write") {
      in >> name >> index >> a;
      ok = sw->register_write(0, name, index, bm::Data(std::stoull(a, nullptr, 0))) ==
           bm::Register::SUCCESS;
    } else if (word == "register_read") {
      in >> name >> index;
      bm::Data value;
      ok = sw->register_read(0, name, index, &value) == bm::Register::SUCCESS;
      if (ok) tell("value " + std::to_string(value.get_uint64()));
    } else if (word == "counter" || word == "direct_counter") {
      in >> name >> index;
      uint64_t n_bytes = 0, n_packets = 0;
      ok = word == "counter"
               ? sw->read_counters(0, name, index, &n_bytes, &n_packets) == bm::Counter::SUCCESS
               : sw->mt_read_counters(0, name, index, &n_bytes, &n_packets) ==
                     MatchErrorCode::SUCCESS;
      tell("value " + std::to_string(n_packets) + " " + std::to_string(n_bytes));
    } else if (word == "vset" || word == "vset_remove") {
      in >> name >> a;
      auto value = bytes(a);
      bm::ByteContainer held(value.data(), value.size());
      ok = (word == "vset" ? sw->parse_vset_add(0, name, held)
                           : sw->parse_vset_remove(0, name, held)) == bm::ParseVSet::SUCCESS;
    } else if (word == "crc16") {
      in >> name;
      ok = sw->set_crc16_custom_parameters(0, name, crc<uint16_t>(in)) ==
           bm::CustomCrcErrorCode::SUCCESS;
    } else if (word == "crc32") {
      in >> name;
      ok = sw->set_crc32_custom_parameters(0, name, crc<uint32_t>(in)) ==
           bm::CustomCrcErrorCode::SUCCESS;
    } else if (word == "mgid") {
      in >> index >> other >> a;
      bm::McSimplePre::mgrp_hdl_t group;
      bm::McSimplePre::l1_hdl_t node;
      bm::McSimplePreLAG::PortMap ports;
      for (const auto &port : split(a, ',')) ports[std::stoi(port)] = true;
      bm::McSimplePreLAG::LagMap lags;
      if (pre->mc_mgrp_create(index, &group) != bm::McSimplePre::SUCCESS) group = index;
      ok = pre->mc_node_create(other, ports, lags, &node) == bm::McSimplePre::SUCCESS &&
           pre->mc_node_associate(group, node) == bm::McSimplePre::SUCCESS;
    } else if (word == "mirror") {
      in >> index >> other;
      SimpleSwitch::MirroringSessionConfig config = {other, true, 0, false};
      ok = sw->mirroring_add_session(static_cast<int>(index), config);
    } else if (word == "packet") {
      in >> index >> a;
      auto data = bytes(a);
      moved_at = now();
      sw->receive(index, data.data(), static_cast<int>(data.size()));
      settle(40'000'000);
      std::vector<std::pair<int, uint64_t>> all;
      {
        std::lock_guard<std::mutex> lock(told);
        all.swap(learned);
      }
      for (const auto &one : all) learning->ack_buffer(one.first, one.second);
    } else if (word == "sleep") {
      in >> index;
      std::this_thread::sleep_for(std::chrono::milliseconds(index));
    } else if (word == "time") {
      in >> name >> index;
      std::vector<std::pair<uint32_t, std::string>> packets;
      std::ifstream file(name);
      for (uint32_t port; file >> port >> a;) packets.emplace_back(port, bytes(a));
      quiet = true;
      auto before = moved.load();
      auto start = now();
      auto used = cpu();
      for (uint32_t round = 0; round < index; round++)
        for (const auto &p : packets)
          sw->receive(p.first, p.second.data(), static_cast<int>(p.second.size()));
      moved_at = std::max(moved_at.load(), start);
      settle(300'000'000);
      used = cpu() - used;
      tell("value " + std::to_string(index * packets.size()) + " " +
           std::to_string(moved.load() - before) + " " + std::to_string(moved_at.load() - start) + " " +
           std::to_string(used));
      quiet = false;
    } else {
      ok = false;
    }
    if (!ok) tell("failed " + line);
    tell("done");
    std::cout.flush();
  }
  std::cout.flush();
  std::_Exit(0);
}
