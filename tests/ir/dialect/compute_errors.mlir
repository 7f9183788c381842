// RUN: vk-opt %s --verify-diagnostics --split-input-file | filecheck %s
// What is wrong with an operation on tiles is said with its axis or size and what was expected.

// CHECK: elements of f64 become f32
vk.mapped @broadcast(%x: f64) {
  %a = vk.broadcast %x : f64 -> tensor<4xf32, #vk.axes<i>>
}

// -----
// CHECK: axis i of the source is not one of the result's: j, k
vk.mapped @broadcast(%n: i64) {
  %i = vk.position i : tensor<4xi64, #vk.axes<i>>
  %a = vk.broadcast %i : tensor<4xi64, #vk.axes<i>> -> tensor<4x4xi64, #vk.axes<j, k>>
}

// -----
// CHECK: axis i has size 4 in the source and ? in the result
vk.mapped @broadcast(%n: i64) {
  %i = vk.position i : tensor<4xi64, #vk.axes<i>>
  %a = vk.broadcast %i : tensor<4xi64, #vk.axes<i>> -> tensor<?xi64, #vk.axes<i>>
}

// -----
// CHECK: the result is tensor<4xi32, #vk.axes<i>>, expected a tile of i64 with axis i alone
vk.mapped @position() {
  %i = vk.position i : tensor<4xi32, #vk.axes<i>>
}

// -----
// CHECK: the result is tensor<4xi64, #vk.axes<j>>, expected a tile of i64 with axis i alone
vk.mapped @position() {
  %i = vk.position i : tensor<4xi64, #vk.axes<j>>
}

// -----
// CHECK: the result is tensor<4x4xi1, #vk.axes<i, j>>, expected a tile of i1 with axis i alone
vk.mapped @below(%n: i64) {
  %i = vk.below i < %n : tensor<4x4xi1, #vk.axes<i, j>>
}

// -----
// CHECK: axis k is not one of the tile's: i
vk.mapped @max() {
  %i = vk.position i : tensor<4xi64, #vk.axes<i>>
  %a = vk.max %i along k : tensor<4xi64, #vk.axes<i>> -> i64
}

// -----
// CHECK: the result is f32, expected i64
vk.mapped @sum() {
  %i = vk.position i : tensor<4xi64, #vk.axes<i>>
  %a = vk.sum %i along i : tensor<4xi64, #vk.axes<i>> -> f32
}

// -----
// CHECK: scan "mean" is not one of sum, product, max, min
vk.mapped @scan() {
  %i = vk.position i : tensor<4xi64, #vk.axes<i>>
  %a = vk.scan mean %i along i : tensor<4xi64, #vk.axes<i>>
}

// -----
// CHECK: axis j is not one of the tile's: i
vk.mapped @scan() {
  %i = vk.position i : tensor<4xi64, #vk.axes<i>>
  %a = vk.scan sum %i along j : tensor<4xi64, #vk.axes<i>>
}

// -----
// CHECK: precision "exact" is not one of ieee, tf32
vk.mapped @dot(%n: i64) {
  %i = vk.position i : tensor<4xi64, #vk.axes<i>>
  %a = vk.dot %i, %i, %n along i precision exact : tensor<4xi64, #vk.axes<i>>, tensor<4xi64, #vk.axes<i>>, i64
}

// -----
// CHECK: axis k is not one of the left operand's: i
vk.mapped @dot(%n: i64) {
  %i = vk.position i : tensor<4xi64, #vk.axes<i>>
  %a = vk.dot %i, %i, %n along k precision ieee : tensor<4xi64, #vk.axes<i>>, tensor<4xi64, #vk.axes<i>>, i64
}

// -----
// CHECK: axis i is not one of the right operand's: j
vk.mapped @dot(%n: i64) {
  %i = vk.position i : tensor<4xi64, #vk.axes<i>>
  %j = vk.position j : tensor<4xi64, #vk.axes<j>>
  %a = vk.dot %i, %j, %n along i precision ieee : tensor<4xi64, #vk.axes<i>>, tensor<4xi64, #vk.axes<j>>, i64
}

// -----
// CHECK: elements are i64, i64, f64, expected one type
vk.mapped @dot(%n: f64) {
  %i = vk.position i : tensor<4xi64, #vk.axes<i>>
  %a = vk.dot %i, %i, %n along i precision ieee : tensor<4xi64, #vk.axes<i>>, tensor<4xi64, #vk.axes<i>>, f64
}

// -----
// CHECK: axis i has size 4 left and 8 right
vk.mapped @dot(%n: i64) {
  %i = vk.position i : tensor<4xi64, #vk.axes<i>>
  %j = vk.position i : tensor<8xi64, #vk.axes<i>>
  %a = vk.dot %i, %j, %n along i precision ieee : tensor<4xi64, #vk.axes<i>>, tensor<8xi64, #vk.axes<i>>, i64
}

// -----
// CHECK: the sum is i64, expected axes j of 8
vk.mapped @dot(%n: i64) {
  %i = vk.position i : tensor<4xi64, #vk.axes<i>>
  %ij = vk.broadcast %i : tensor<4xi64, #vk.axes<i>> -> tensor<4x8xi64, #vk.axes<i, j>>
  %a = vk.dot %i, %ij, %n along i precision ieee : tensor<4xi64, #vk.axes<i>>, tensor<4x8xi64, #vk.axes<i, j>>, i64
}

// -----
// CHECK: the condition is i64, expected i1 or a tile of i1
vk.mapped @assert(%n: i64) {
  vk.assert %n, "n" : i64
}

// -----
// CHECK: vk.scale is of floats, not i64
vk.mapped @scale(%n: i64) {
  %a = vk.scale %n, %n : i64
}

// -----
// CHECK: vk.maxui is of integers, not tensor<4xf64, #vk.axes<i>>
vk.mapped @maximum(%x: f64) {
  %t = vk.broadcast %x : f64 -> tensor<4xf64, #vk.axes<i>>
  %a = vk.maxui %t along i : tensor<4xf64, #vk.axes<i>> -> f64
}

// -----
// CHECK: scan minui is of integers, not tensor<4xf64, #vk.axes<i>>
vk.mapped @scan(%x: f64) {
  %t = vk.broadcast %x : f64 -> tensor<4xf64, #vk.axes<i>>
  %a = vk.scan minui %t along i : tensor<4xf64, #vk.axes<i>>
}

// -----
// CHECK: value 0 is no integer, and is to be shown as an unsigned one
vk.mapped @print(%x: f64) {
  vk.print "x" %x : f64 {unsigned = array<i64: 0>}
}
