// The main program for bmv2's tests of simple_switch_grpc. bmv2's own has the switch in its process; this one starts the
// program that SWITCH names, with the same options, and ends it when all tests are done.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "PI/proto/pi_server.h"
#include "base_test.h"

namespace {

using Base = sswitch_grpc::testing::SimpleSwitchGrpcBaseTest;

std::string setting(const char *name) {
  const char *value = std::getenv(name);
  if (value == nullptr) {
    std::fprintf(stderr, "%s is not set\n", name);
    std::exit(2);
  }
  return value;
}

class Switch : public ::testing::Environment {
 public:
  void SetUp() override {
    const std::string log = setting("SWITCH_LOG");
    std::vector<std::string> words{setting("SWITCH"), "--device-id", std::to_string(Base::device_id)};
    // The ports that the tests name.
    for (int port : {1, 2, 3, 9, 99}) {
      words.insert(words.end(), {"-i", std::to_string(port) + "@dp" + std::to_string(port)});
    }
    words.insert(words.end(), {"--thrift-port", setting("SWITCH_THRIFT_PORT"), "--log-console",
                               TESTDATADIR "/loopback.json", "--", "--grpc-server-addr", Base::grpc_server_addr,
                               "--cpu-port", std::to_string(Base::cpu_port), "--dp-grpc-server-addr",
                               Base::dp_grpc_server_addr});
    pid_ = fork();
    ASSERT_GE(pid_, 0);
    if (pid_ == 0) {
      const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(out, 1);
      dup2(out, 2);
      std::vector<char *> argv;
      for (auto &word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    for (int i = 0; i < 200; i++) {
      std::ifstream said(log);
      std::stringstream text;
      text << said.rdbuf();
      if (text.str().find("millrace: ready") != std::string::npos) return;
      ASSERT_EQ(waitpid(pid_, nullptr, WNOHANG), 0) << "the switch has ended: " << text.str();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    FAIL() << "the switch is not ready; see " << log;
  }

  void TearDown() override {
    if (pid_ <= 0) return;
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_{-1};
};

// What the switch counts at its CPU port.
uint64_t at_cpu_port(const char *key) {
  const std::string command = setting("MILLRACE") + " stats --json --ctl " + setting("SWITCH_CTL");
  FILE *asked = popen(command.c_str(), "r");
  std::string said;
  char piece[4096];
  for (size_t n; (n = fread(piece, 1, sizeof piece, asked)) > 0;) said.append(piece, n);
  pclose(asked);
  const std::regex cpu(R"(\{[^{}]*(\{[^{}]*\})?[^{}]*"name":"cpu"[^{}]*\})");
  std::smatch port, count;
  const std::regex counted("\"" + std::string(key) + "\":([0-9]+)");
  if (!std::regex_search(said, port, cpu)) return UINT64_MAX;
  const std::string text = port.str();
  return std::regex_search(text, count, counted) ? std::stoull(count[1]) : UINT64_MAX;
}

}  // namespace

uint64_t PIGrpcServerGetPacketOutCount(uint64_t) { return at_cpu_port("rx_packets"); }
uint64_t PIGrpcServerGetPacketInCount(uint64_t) { return at_cpu_port("tx_packets"); }

int main(int argc, char *argv[]) {
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::AddGlobalTestEnvironment(new Switch);
  return RUN_ALL_TESTS();
}
