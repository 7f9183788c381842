// RUN: vk-opt %s --verify-diagnostics --split-input-file | filecheck %s
// The body of a scan takes two elements and gives one.

// CHECK: the body does not take two elements
vk.mapped @one(%x: i64) {
  %a = arith.constant dense<1.0> : tensor<8xf32, #vk.axes<i>>
  %s = vk.scan_by %a along i : tensor<8xf32, #vk.axes<i>> -> tensor<8xf32, #vk.axes<i>> by {
  ^bb0(%p: f32):
    vk.combined %p : f32
  }
}

// -----
// CHECK: the body does not end with a vk.combined of one element
vk.mapped @other(%x: i64) {
  %a = arith.constant dense<1.0> : tensor<8xf32, #vk.axes<i>>
  %s = vk.scan_by %a along i : tensor<8xf32, #vk.axes<i>> -> tensor<8xf32, #vk.axes<i>> by {
  ^bb0(%p: f32, %q: f32):
    vk.combined %p, %q : f32, f32
  }
}

// -----
// CHECK: axis n is not one of each tile's: i
vk.mapped @axis(%x: i64) {
  %a = arith.constant dense<1.0> : tensor<8xf32, #vk.axes<i>>
  %s = vk.scan_by %a along n : tensor<8xf32, #vk.axes<i>> -> tensor<8xf32, #vk.axes<i>> by {
  ^bb0(%p: f32, %q: f32):
    vk.combined %p : f32
  }
}
