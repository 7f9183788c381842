// RUN: vk-opt %s --verify-diagnostics --split-input-file | filecheck %s
// Types and attributes that mean nothing are refused where they are read.

// CHECK: a tensor has a dimension of ?, expected the name of a size or a number
vk.kernel @tensor(%x: !vk.tensor<[?], f32>) {
}

// -----
// CHECK: a tensor holds index, expected a float, i1, i8, i16, i32 or i64
vk.kernel @tensor(%x: !vk.tensor<[M], index>) {
}

// -----
// CHECK: a tensor holds i7, expected a float, i1, i8, i16, i32 or i64
vk.kernel @tensor(%x: !vk.tensor<[M], i7>) {
}

// -----
// CHECK: a scratch has a dimension of ?, expected an axis or a number
vk.mapped @scratch() {
  %s = vk.scratch "s" : !vk.scratch<[4, ?], f32>
}

// -----
// CHECK: an axis appears twice in the scratch's dimensions i, i
vk.mapped @scratch() {
  %s = vk.scratch "s" : !vk.scratch<[i, i], f32>
}

// -----
// CHECK: a buffer has a dimension of M, expected ? or a number
vk.mapped @buffer() {
  %b = vk.buffer "b" [] : !vk.buffer<[M], f32>
}

// -----
// CHECK: an axis appears twice in i, j, i
vk.mapped @tile() {
  %p = vk.position i : tensor<4x4x4xi64, #vk.axes<i, j, i>>
}

// -----
// CHECK: tensor<4x4xi64, #vk.axes<i>> names 1 axes for 2 dimensions
vk.mapped @tile() {
  %p = vk.position i : tensor<4x4xi64, #vk.axes<i>>
}

// -----
// CHECK: tensor<4xi64> is not a tile: its encoding names no axes
vk.mapped @tile() {
  %p = vk.position i : tensor<4xi64>
}

// -----
// CHECK: an axis appears twice in i + 2 * i
vk.mapped @index(%x: !vk.tensor<[M], f32>) {
  %a = vk.load %x[i + 2 * i] : !vk.tensor<[M], f32> -> tensor<4xf32, #vk.axes<i>>
}

// -----
// CHECK: an axis appears twice in [0] + i + 2 * i
"vk.mapped"() <{sym_name = "index", parameters = [], note = #vk.index<[3] + i + 2 * i>}> ({
}) : () -> ()

// -----
// Upstream operations are held to it too.
// CHECK: tensor<4xf32, #vk.axes<i, j>> names 2 axes for 1 dimensions
vk.mapped @upstream() {
  %a = arith.constant dense<1.0> : tensor<4xf32, #vk.axes<i, j>>
}
