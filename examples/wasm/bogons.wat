;; Drops packets whose IPv4 source is one that no packet from outside has (0/8, 10/8, 127/8, 192.168/16, and 224/3),
;; and counts them. The others go on with sf_metadata 1, what is no IPv4 with 0.
;;
;;     millrace service add bogons wasm module=examples/wasm/bogons.wat octets=64
;;     table=0,priority=20,sf_stage=1 actions=output:2
;;     table=0,priority=10,in_port=1,ip actions=softflow(bogons)
(module
  (memory (export "memory") 1)
  (global (export "millrace_abi") i32 (i32.const 1))
  (global $dropped (export "count_dropped") (mut i64) (i64.const 0))
  (global $passed (export "count_passed") (mut i64) (i64.const 0))

  ;; The burst lies at the memory's beginning, so places in the buffer are addresses.
  (func (export "buffer") (param $octets i32) (result i32) (i32.const 0))

  (func $bogon (param $address i32) (result i32)
    (local $first i32)
    ;; Little endian: the address's first octet is the lowest.
    (local.set $first (i32.and (local.get $address) (i32.const 0xff)))
    (i32.or
      (i32.or
        (i32.or (i32.eqz (local.get $first)) (i32.eq (local.get $first) (i32.const 10)))
        (i32.or (i32.eq (local.get $first) (i32.const 127)) (i32.ge_u (local.get $first) (i32.const 224))))
      (i32.eq (i32.and (local.get $address) (i32.const 0xffff)) (i32.const 0xa8c0))))

  (func (export "ingress") (param $now_ns i64) (param $packets i32)
    (local $d i32)
    (local $end i32)
    (local.set $end (i32.mul (local.get $packets) (i32.const 64)))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $d) (local.get $end)))
        (i64.store offset=32 (local.get $d) (i64.const 0))
        (i32.store8 offset=57 (local.get $d) (i32.const 1))
        (if (i32.eq (i32.load8_u offset=52 (local.get $d)) (i32.const 4))
          (then
            (if (call $bogon
                  ;; The source lies 12 octets behind the network header's beginning.
                  (i32.load offset=12
                    (i32.add (i32.load (local.get $d)) (i32.load offset=12 (local.get $d)))))
              (then
                (i32.store8 offset=58 (local.get $d) (i32.const 1))
                (global.set $dropped (i64.add (global.get $dropped) (i64.const 1))))
              (else
                (i64.store offset=32 (local.get $d) (i64.const 1))
                (global.set $passed (i64.add (global.get $passed) (i64.const 1)))))))
        (local.set $d (i32.add (local.get $d) (i32.const 64)))
        (br $next)))))
