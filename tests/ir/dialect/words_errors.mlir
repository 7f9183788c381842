// RUN: vk-opt %s --verify-diagnostics --split-input-file | filecheck %s
// What is wrong with words, and with dots of them, is said with what was expected.

// CHECK: elements are i64, expected i8, bf16 or f16
vk.mapped @words() {
  %i = vk.position i : tensor<4xi64, #vk.axes<i>>
  %a = vk.words %i along i : tensor<4xi64, #vk.axes<i>> -> tensor<1xi32, #vk.axes<i>>
}

// -----
// CHECK: axis i has size 6, expected a multiple of 4
vk.mapped @words() {
  %i = arith.constant dense<0> : tensor<6xi8, #vk.axes<i>>
  %a = vk.words %i along i : tensor<6xi8, #vk.axes<i>> -> tensor<1xi32, #vk.axes<i>>
}

// -----
// CHECK: expected i32 and a part of i
vk.mapped @words() {
  %i = arith.constant dense<0> : tensor<8xi8, #vk.axes<i>>
  %a = vk.words %i along i : tensor<8xi8, #vk.axes<i>> -> tensor<8xi32, #vk.axes<i>>
}

// -----
// CHECK: axis j is not one of the tile's: i
vk.mapped @words() {
  %i = arith.constant dense<0> : tensor<8xi8, #vk.axes<i>>
  %a = vk.words %i along j : tensor<8xi8, #vk.axes<i>> -> tensor<2xi32, #vk.axes<i>>
}

// -----
// CHECK: kind "s4s4" is not one of s8s8, s8u8, u8s8, u8u8, bf16, bf16_odd, matrix_s8s8
vk.mapped @dot(%n: i32) {
  %i = arith.constant dense<0> : tensor<4xi32, #vk.axes<i>>
  %a = vk.word_dot %i, %i, %n along i of s4s4 : tensor<4xi32, #vk.axes<i>>, tensor<4xi32, #vk.axes<i>>, i32
}

// -----
// CHECK: words are i32, not i64 and i32
vk.mapped @dot(%n: i32) {
  %i = arith.constant dense<0> : tensor<4xi32, #vk.axes<i>>
  %j = vk.position i : tensor<4xi64, #vk.axes<i>>
  %a = vk.word_dot %j, %i, %n along i of s8s8 : tensor<4xi64, #vk.axes<i>>, tensor<4xi32, #vk.axes<i>>, i32
}

// -----
// CHECK: the sum has elements of i32, expected f32
vk.mapped @dot(%n: i32) {
  %i = arith.constant dense<0> : tensor<4xi32, #vk.axes<i>>
  %a = vk.word_dot %i, %i, %n along i of bf16 : tensor<4xi32, #vk.axes<i>>, tensor<4xi32, #vk.axes<i>>, i32
}

// -----
// CHECK: a matrix unit takes a multiple of 16 words along k
vk.mapped @dot() {
  %i = arith.constant dense<0> : tensor<4x16xi32, #vk.axes<k, j>>
  %j = arith.constant dense<0> : tensor<2x4xi32, #vk.axes<i, k>>
  %n = arith.constant dense<0.0> : tensor<2x16xf32, #vk.axes<i, j>>
  %a = vk.word_dot %i, %j, %n along k of matrix_bf16 : tensor<4x16xi32, #vk.axes<k, j>>, tensor<2x4xi32, #vk.axes<i, k>>, tensor<2x16xf32, #vk.axes<i, j>>
}

// -----
// CHECK: axis i has size 16, expected a multiple of 32
vk.mapped @words() {
  %i = arith.constant dense<0.0> : tensor<16xf16, #vk.axes<i>>
  %a = vk.words %i along i : tensor<16xf16, #vk.axes<i>> -> tensor<16xi32, #vk.axes<i>>
}

// -----
// CHECK: a matrix unit takes a multiple of 32 words along k
vk.mapped @dot() {
  %i = arith.constant dense<0> : tensor<16x16xi32, #vk.axes<k, j>>
  %j = arith.constant dense<0> : tensor<2x16xi32, #vk.axes<i, k>>
  %n = arith.constant dense<0.0> : tensor<2x16xf32, #vk.axes<i, j>>
  %a = vk.word_dot %i, %j, %n along k of matrix_split_f16 : tensor<16x16xi32, #vk.axes<k, j>>, tensor<2x16xi32, #vk.axes<i, k>>, tensor<2x16xf32, #vk.axes<i, j>>
}

// -----
// CHECK: passing is "sum", expected left or right
vk.mapped @dot() {
  %i = arith.constant dense<0> : tensor<16x16xi32, #vk.axes<k, j>>
  %j = arith.constant dense<0> : tensor<2x16xi32, #vk.axes<i, k>>
  %n = arith.constant dense<0.0> : tensor<2x16xf32, #vk.axes<i, j>>
  %a = vk.word_dot %i, %j, %n along k of matrix_bf16 passing "sum" : tensor<16x16xi32, #vk.axes<k, j>>, tensor<2x16xi32, #vk.axes<i, k>>, tensor<2x16xf32, #vk.axes<i, j>>
}
