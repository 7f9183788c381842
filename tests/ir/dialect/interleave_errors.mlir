// RUN: vk-opt %s --verify-diagnostics --split-input-file | filecheck %s
// Tiles are interleaved that are of one type, as many as a power of two, along their last axis.

// CHECK: 3 tiles are interleaved, expected a power of two
vk.mapped @three(%x: i64) {
  %a = arith.constant dense<1.0> : tensor<8xf32, #vk.axes<i>>
  %all = vk.interleave %a, %a, %a along i : tensor<8xf32, #vk.axes<i>>, tensor<8xf32, #vk.axes<i>>, tensor<8xf32, #vk.axes<i>> -> tensor<24xf32, #vk.axes<i>>
}

// -----
// CHECK: axis n is not the last of
vk.mapped @first(%x: i64) {
  %a = arith.constant dense<1.0> : tensor<4x8xf32, #vk.axes<n, i>>
  %all = vk.interleave %a, %a along n : tensor<4x8xf32, #vk.axes<n, i>>, tensor<4x8xf32, #vk.axes<n, i>> -> tensor<8x8xf32, #vk.axes<n, i>>
}

// -----
// CHECK: the result is tensor<8xf32, #vk.axes<i>>, expected tensor<16xf32, #vk.axes<i>>
vk.mapped @longer(%x: i64) {
  %a = arith.constant dense<1.0> : tensor<8xf32, #vk.axes<i>>
  %all = vk.interleave %a, %a along i : tensor<8xf32, #vk.axes<i>>, tensor<8xf32, #vk.axes<i>> -> tensor<8xf32, #vk.axes<i>>
}
