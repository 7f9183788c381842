// RUN: vk-opt %s --verify-diagnostics --split-input-file | filecheck %s
// What is wrong with decoded bytes and scaled dots is said with the format, element type or number of blocks.

// CHECK: format "e3m2" is not one of e8m0, e2m1_low, e2m1_high
vk.mapped @decode(%x: i64) {
  %b = arith.constant dense<1> : tensor<4xi8, #vk.axes<i>>
  %f = vk.decode e3m2 %b : tensor<4xi8, #vk.axes<i>> -> tensor<4xf32, #vk.axes<i>>
}

// -----
// CHECK: expected i8 and f32
vk.mapped @decode(%x: i64) {
  %b = arith.constant dense<1> : tensor<4xi16, #vk.axes<i>>
  %f = vk.decode e8m0 %b : tensor<4xi16, #vk.axes<i>> -> tensor<4xf32, #vk.axes<i>>
}

// -----
// CHECK: 32 positions are not 5 blocks
vk.mapped @repeat(%x: i64) {
  %b = arith.constant dense<1> : tensor<5xi8, #vk.axes<g>>
  %f = vk.repeat %b along g to k : tensor<5xi8, #vk.axes<g>> -> tensor<32xi8, #vk.axes<k>>
}

// -----
// CHECK: operands are f8 or i8, not i32
vk.mapped @dot(%x: i64) {
  %a = arith.constant dense<1> : tensor<4x32xi32, #vk.axes<i, k>>
  %b = arith.constant dense<1> : tensor<4x32xi8, #vk.axes<j, k>>
  %s = arith.constant dense<1> : tensor<4x2xi8, #vk.axes<i, g>>
  %t = arith.constant dense<1> : tensor<4x2xi8, #vk.axes<j, g>>
  %c = arith.constant dense<1.0> : tensor<4x4xf32, #vk.axes<i, j>>
  %d = vk.scaled_dot %a by %s, %b by %t, %c along k in g : tensor<4x32xi32, #vk.axes<i, k>>, tensor<4x2xi8, #vk.axes<i, g>>, tensor<4x32xi8, #vk.axes<j, k>>, tensor<4x2xi8, #vk.axes<j, g>>, tensor<4x4xf32, #vk.axes<i, j>>
}

// -----
// CHECK: 32 positions along k are not 3 blocks
vk.mapped @dot(%x: i64) {
  %a = arith.constant dense<1> : tensor<4x32xi8, #vk.axes<i, k>>
  %b = arith.constant dense<1> : tensor<4x32xi8, #vk.axes<j, k>>
  %s = arith.constant dense<1> : tensor<4x3xi8, #vk.axes<i, g>>
  %t = arith.constant dense<1> : tensor<4x3xi8, #vk.axes<j, g>>
  %c = arith.constant dense<1.0> : tensor<4x4xf32, #vk.axes<i, j>>
  %d = vk.scaled_dot %a by %s, %b by %t, %c along k in g : tensor<4x32xi8, #vk.axes<i, k>>, tensor<4x3xi8, #vk.axes<i, g>>, tensor<4x32xi8, #vk.axes<j, k>>, tensor<4x3xi8, #vk.axes<j, g>>, tensor<4x4xf32, #vk.axes<i, j>>
}
