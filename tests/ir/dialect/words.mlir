// RUN: vk-opt %s | filecheck %s
// RUN: vk-opt %s | vk-opt | filecheck %s
// RUN: vk-opt %s --print-op-generic | vk-opt | filecheck %s
// Words hold neighbouring elements along an axis, or parts of f16; dots of words name what they hold.

// CHECK-LABEL: vk.mapped @words
vk.mapped @words(%a: !vk.tensor<[M, K], i8>, %b: !vk.tensor<[K, N], bf16>) {
  %one = arith.constant 1 : i64
  vk.launch "all" over (%p = %one) {
    %x = vk.load %a[i, k] : !vk.tensor<[M, K], i8> -> tensor<2x8xi8, #vk.axes<i, k>>
    %y = vk.load %b[k, j] : !vk.tensor<[K, N], bf16> -> tensor<8x16xbf16, #vk.axes<k, j>>
    // CHECK:       %0 = vk.words %x along k : tensor<2x8xi8, #vk.axes<i, k>> -> tensor<2x2xi32, #vk.axes<i, k>>
    // CHECK-NEXT:  %1 = vk.words %y along k {note} : tensor<8x16xbf16, #vk.axes<k, j>> -> tensor<4x16xi32, #vk.axes<k, j>>
    %0 = vk.words %x along k : tensor<2x8xi8, #vk.axes<i, k>> -> tensor<2x2xi32, #vk.axes<i, k>>
    %1 = vk.words %y along k {note} : tensor<8x16xbf16, #vk.axes<k, j>> -> tensor<4x16xi32, #vk.axes<k, j>>
    %s = arith.constant dense<0> : tensor<2xi32, #vk.axes<i>>
    %w = arith.constant dense<0> : tensor<2xi32, #vk.axes<k>>
    %f = arith.constant dense<0.0> : tensor<16xf32, #vk.axes<j>>
    %v = arith.constant dense<0> : tensor<4xi32, #vk.axes<k>>
    // CHECK:       %2 = vk.word_dot %0, %w, %s along k of u8s8 : tensor<2x2xi32, #vk.axes<i, k>>, tensor<2xi32, #vk.axes<k>>, tensor<2xi32, #vk.axes<i>>
    // CHECK-NEXT:  %3 = vk.word_dot %1, %v, %f along k of bf16 {note} : tensor<4x16xi32, #vk.axes<k, j>>, tensor<4xi32, #vk.axes<k>>, tensor<16xf32, #vk.axes<j>>
    %2 = vk.word_dot %0, %w, %s along k of u8s8 : tensor<2x2xi32, #vk.axes<i, k>>, tensor<2xi32, #vk.axes<k>>, tensor<2xi32, #vk.axes<i>>
    %3 = vk.word_dot %1, %v, %f along k of bf16 {note} : tensor<4x16xi32, #vk.axes<k, j>>, tensor<4xi32, #vk.axes<k>>, tensor<16xf32, #vk.axes<j>>
  }
}

// CHECK-LABEL: vk.mapped @parts
vk.mapped @parts(%a: !vk.tensor<[K, N], f16>) {
  %one = arith.constant 1 : i64
  vk.launch "all" over (%p = %one) {
    %x = vk.load %a[k, j] : !vk.tensor<[K, N], f16> -> tensor<32x16xf16, #vk.axes<k, j>>
    // CHECK:       %0 = vk.words %x along k : tensor<32x16xf16, #vk.axes<k, j>> -> tensor<32x16xi32, #vk.axes<k, j>>
    %0 = vk.words %x along k : tensor<32x16xf16, #vk.axes<k, j>> -> tensor<32x16xi32, #vk.axes<k, j>>
    %v = arith.constant dense<0> : tensor<32xi32, #vk.axes<k>>
    %f = arith.constant dense<0.0> : tensor<16xf32, #vk.axes<j>>
    // CHECK:       vk.word_dot %0, %v, %f along k of matrix_split_f16
    %1 = vk.word_dot %0, %v, %f along k of matrix_split_f16 : tensor<32x16xi32, #vk.axes<k, j>>, tensor<32xi32, #vk.axes<k>>, tensor<16xf32, #vk.axes<j>>
  }
}

// CHECK-LABEL: vk.mapped @passing
vk.mapped @passing() {
  %i = arith.constant dense<0> : tensor<16x16xi32, #vk.axes<k, j>>
  %j = arith.constant dense<0> : tensor<2x16xi32, #vk.axes<i, k>>
  %n = arith.constant dense<0.0> : tensor<2x16xf32, #vk.axes<i, j>>
  // CHECK:      vk.word_dot %i, %j, %n along k of matrix_bf16 passing "left" {note} : tensor<16x16xi32, #vk.axes<k, j>>
  %a = vk.word_dot %i, %j, %n along k of matrix_bf16 passing "left" {note} : tensor<16x16xi32, #vk.axes<k, j>>, tensor<2x16xi32, #vk.axes<i, k>>, tensor<2x16xf32, #vk.axes<i, j>>
}
