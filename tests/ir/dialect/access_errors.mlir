// RUN: vk-opt %s --verify-diagnostics --split-input-file | filecheck %s
// What is wrong with an access is said with its number and what was expected.

// CHECK: 2 indices for !vk.tensor<[M], f32>, which has 1 dimensions
vk.mapped @rank(%x: !vk.tensor<[M], f32>) {
  %a = vk.load %x[i, j] : !vk.tensor<[M], f32> -> tensor<4x4xf32, #vk.axes<i, j>>
}

// -----
// CHECK: elements of f64 for !vk.tensor<[M], f32>, which holds f32
vk.mapped @element(%x: !vk.tensor<[M], f32>) {
  %a = vk.load %x[i] : !vk.tensor<[M], f32> -> tensor<4xf64, #vk.axes<i>>
}

// -----
// CHECK: the indices use offsets [1], but 1 are given, in this order
vk.mapped @offsets(%x: !vk.tensor<[M], f32>, %n: i64) {
  %a = "vk.load"(%x, %n) <{index = [#vk.index<[1] + i>], operandSegmentSizes = array<i32: 1, 1, 0, 0>}> : (!vk.tensor<[M], f32>, i64) -> tensor<4xf32, #vk.axes<i>>
}

// -----
// CHECK: a scalar offset must be i64, not f64
vk.mapped @offset(%x: !vk.tensor<[M], f32>, %n: f64) {
  %a = "vk.load"(%x, %n) <{index = [#vk.index<[0] + i>], operandSegmentSizes = array<i32: 1, 1, 0, 0>}> : (!vk.tensor<[M], f32>, f64) -> tensor<4xf32, #vk.axes<i>>
}

// -----
// CHECK: vk.load takes scalar offsets; an index tile needs vk.gather or vk.scatter
vk.mapped @tile(%x: !vk.tensor<[M], f32>) {
  %i = vk.position i : tensor<4xi64, #vk.axes<i>>
  %a = "vk.load"(%x, %i) <{index = [#vk.index<[0]>], operandSegmentSizes = array<i32: 1, 1, 0, 0>}> : (!vk.tensor<[M], f32>, tensor<4xi64, #vk.axes<i>>) -> tensor<4xf32, #vk.axes<i>>
}

// -----
// CHECK: vk.gather needs an index tile; without one it is a vk.load or vk.store
vk.mapped @gather(%x: !vk.tensor<[M], f32>) {
  %a = vk.gather %x[i] : !vk.tensor<[M], f32>, () -> tensor<4xf32, #vk.axes<i>>
}

// -----
// CHECK: an index tile must hold integers, not i1
vk.mapped @gather(%x: !vk.tensor<[M], f32>, %n: i64) {
  %b = vk.below i < %n : tensor<4xi1, #vk.axes<i>>
  %a = vk.gather %x[%b] : !vk.tensor<[M], f32>, (tensor<4xi1, #vk.axes<i>>) -> tensor<4xf32, #vk.axes<i>>
}

// -----
// CHECK: the indices name axes i, j, the tile i, k
vk.mapped @axes(%x: !vk.tensor<[M], f32>) {
  %a = vk.load %x[i + j] : !vk.tensor<[M], f32> -> tensor<4x4xf32, #vk.axes<i, k>>
}

// -----
// CHECK: axis i has size 8 in the tile and 4 in an index tile
vk.mapped @sizes(%x: !vk.tensor<[M], f32>) {
  %i = vk.position i : tensor<4xi64, #vk.axes<i>>
  %a = vk.gather %x[%i] : !vk.tensor<[M], f32>, (tensor<4xi64, #vk.axes<i>>) -> tensor<8xf32, #vk.axes<i>>
}

// -----
// CHECK: 1 axes within 0 counts
vk.mapped @within(%x: !vk.tensor<[M], f32>) {
  %a = "vk.load"(%x) <{index = [#vk.index<i>], within = ["i"], operandSegmentSizes = array<i32: 1, 0, 0, 0>}> : (!vk.tensor<[M], f32>) -> tensor<4xf32, #vk.axes<i>>
}

// -----
// CHECK: an axis is bounded twice in i, i
vk.mapped @within(%x: !vk.tensor<[M], f32>, %n: i64) {
  %a = vk.load %x[i] within (i < %n, i < %n) : !vk.tensor<[M], f32> -> tensor<4xf32, #vk.axes<i>>
}

// -----
// CHECK: axis j is bounded, but the tile has i
vk.mapped @within(%x: !vk.tensor<[M], f32>, %n: i64) {
  %a = vk.load %x[i] within (j < %n) : !vk.tensor<[M], f32> -> tensor<4xf32, #vk.axes<i>>
}

// -----
// CHECK: the mask is i1, expected tensor<4xi1, #vk.axes<i>>
vk.mapped @mask(%x: !vk.tensor<[M], f32>, %on: i1) {
  %a = "vk.load"(%x, %on) <{index = [#vk.index<i>], operandSegmentSizes = array<i32: 1, 0, 0, 1>}> : (!vk.tensor<[M], f32>, i1) -> tensor<4xf32, #vk.axes<i>>
}

// -----
// CHECK: dimension 1 is guarded, but there are 1
vk.mapped @guarded(%x: !vk.tensor<[M], f32>) {
  %a = vk.load %x[i] guarding [1] : !vk.tensor<[M], f32> -> tensor<4xf32, #vk.axes<i>>
}

// -----
// CHECK: atomic "xor" is not one of add, max, min
vk.mapped @atomic(%x: !vk.tensor<[M], f32>, %v: i64) {
  %a = vk.load %x[i] : !vk.tensor<[M], f32> -> tensor<4xf32, #vk.axes<i>>
  vk.store %a atomic xor in %x[i] : !vk.tensor<[M], f32> <- tensor<4xf32, #vk.axes<i>>
}

// -----
// CHECK: atomic maxui is of integers, not tensor<4xf64, #vk.axes<i>>
vk.mapped @unsigned(%x: !vk.tensor<[M], f64>, %v: f64) {
  %a = vk.broadcast %v : f64 -> tensor<4xf64, #vk.axes<i>>
  vk.store %a atomic maxui in %x[i] : !vk.tensor<[M], f64> <- tensor<4xf64, #vk.axes<i>>
}

// -----
// CHECK: nothing can use the result of a vk.prefetch: it is not defined
vk.mapped @used(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[N], f32>) {
  %at = arith.constant dense<0> : tensor<1xi64, #vk.axes<i>>
  %a = vk.prefetch %x[%at, j] : !vk.tensor<[M, N], f32>, (tensor<1xi64, #vk.axes<i>>) -> tensor<1x4xf32, #vk.axes<i, j>>
  vk.store %a in %out[i + j] : !vk.tensor<[N], f32> <- tensor<1x4xf32, #vk.axes<i, j>>
}

// -----
// CHECK: a fetch that compares, and no other, expects an element
vk.mapped @expects(%x: !vk.tensor<[M], f32>) {
  %a = arith.constant dense<1.0> : tensor<4xf32, #vk.axes<i>>
  %b = vk.fetch %a atomic compare in %x[i] : !vk.tensor<[M], f32>, () <- tensor<4xf32, #vk.axes<i>>
}

// -----
// CHECK: atomic "swap" is not one of add, max, min, maxui, minui, exchange, compare
vk.mapped @swaps(%x: !vk.tensor<[M], f32>) {
  %a = arith.constant dense<1.0> : tensor<4xf32, #vk.axes<i>>
  %b = vk.fetch %a atomic swap in %x[i] : !vk.tensor<[M], f32>, () <- tensor<4xf32, #vk.axes<i>>
}
