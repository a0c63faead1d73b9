;; Does nothing: what a call of a module costs, and the smallest module that is a service (docs/services/sandbox.md).
;;
;;     millrace service add idle wasm module=examples/wasm/noop.wat
(module
  (memory (export "memory") 2)
  (global (export "millrace_abi") i32 (i32.const 1))
  ;; The burst lies at the memory's beginning.
  (func (export "buffer") (param $octets i32) (result i32) (i32.const 0))
  (func (export "ingress") (param $now_ns i64) (param $packets i32)))
