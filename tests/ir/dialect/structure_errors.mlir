// RUN: vk-opt %s --verify-diagnostics --split-input-file | filecheck %s
// What is wrong with a kernel's frame is said with its number and what was expected.

// CHECK: a parameter's name appears twice in x, x
vk.kernel @twice(%x: f64, %y as "x": f64) {
}

// -----
// CHECK: 1 names of parameters for 2 block arguments
"vk.kernel"() <{sym_name = "count", parameters = ["x"]}> ({
^bb0(%x: f64, %y: f64):
}) : () -> ()

// -----
// CHECK: parameter x is i32, expected a !vk.tensor, f64, i64 or i1
vk.kernel @scalar(%x: i32) {
}

// -----
// CHECK: the facts' sizes are 3 : i64, expected a dictionary
vk.kernel @facts(%x: !vk.tensor<[M], f32>) facts {sizes = 3, multiples = {}, strides = {}} {
}

// -----
// CHECK: the facts' multiples are None, expected a dictionary
vk.kernel @facts(%x: !vk.tensor<[M], f32>) facts {sizes = {}, strides = {}} {
}

// -----
// CHECK: the facts' multiples give M as "8", expected a number
vk.kernel @facts(%x: !vk.tensor<[M], f32>) facts {sizes = {}, multiples = {M = "8"}, strides = {}} {
}

// -----
// CHECK: the facts give strides of y, which is not a tensor parameter
vk.kernel @facts(%x: !vk.tensor<[M], f32>) facts {sizes = {}, multiples = {}, strides = {y = [1]}} {
}

// -----
// CHECK: the strides of x are 1 : i64, expected an array of numbers
vk.kernel @facts(%x: !vk.tensor<[M], f32>) facts {sizes = {}, multiples = {}, strides = {x = 1}} {
}

// -----
// CHECK: 2 strides for x, which has 1 dimensions
vk.kernel @facts(%x: !vk.tensor<[M], f32>) facts {sizes = {}, multiples = {}, strides = {x = [1, 2]}} {
}

// -----
// CHECK: axis i is declared twice
vk.kernel @axes() {
  %M = vk.size M
  vk.tile i < %M
  vk.whole i < %M
}

// -----
// CHECK: axis i is declared outside the top level of a vk.kernel
vk.mapped @axes() {
  %M = vk.size M
  vk.tile i < %M
}

// -----
// CHECK: vk.load names axis k, declared are i, j
vk.kernel @axes(%x: !vk.tensor<[M], f32>) {
  %M = vk.size M
  vk.whole j < %M
  vk.tile i < %M
  %a = vk.load %x[k] : !vk.tensor<[M], f32> -> tensor<?xf32, #vk.axes<k>>
}

// -----
// CHECK: vk.scratch names axis n, declared are none
vk.kernel @axes() {
  %s = vk.scratch "s" : !vk.scratch<[n], f32>
}

// -----
// CHECK: an operand of vk.tile, of type i64, is used before it is defined
vk.kernel @order() {
  vk.tile i < %M
  %M = vk.size M
}

// -----
// CHECK: an operand of vk.print, of type i64, is used before it is defined
"vk.kernel"() <{sym_name = "order", parameters = []}> ({
^bb0:
  %M = "vk.size"() <{size = "M"}> : () -> i64
  "vk.range"(%M, %M) <{axis = "k"}> ({
  ^bb1(%k: i64):
    "vk.print"(%N) <{prefix = "N"}> : (i64) -> ()
    "vk.yield"() : () -> ()
  }) : (i64, i64) -> ()
  %N = "vk.size"() <{size = "N"}> : () -> i64
}) : () -> ()

// -----
// CHECK: vk.yield outside the body of a vk.range or vk.phase
vk.mapped @yield() {
  vk.yield
}

// -----
// CHECK: the range starts at i64 and stops at tensor<4xi64, #vk.axes<i>>, expected one type
"vk.mapped"() <{sym_name = "range", parameters = []}> ({
  %M = "vk.size"() <{size = "M"}> : () -> i64
  %t = vk.broadcast %M : i64 -> tensor<4xi64, #vk.axes<i>>
  "vk.range"(%M, %t) <{axis = "k"}> ({
  ^bb0(%k: i64):
    vk.yield
  }) : (i64, tensor<4xi64, #vk.axes<i>>) -> ()
}) : () -> ()

// -----
// CHECK: the range's bounds are i1, expected i64 or a tile of i64
vk.mapped @range(%on: i1) {
  vk.range %k = %on to %on : i1 {
  }
}

// -----
// CHECK: the body takes (i64), expected (i64, i64)
vk.mapped @range(%n: i64) {
  %r = "vk.range"(%n, %n, %n) <{axis = "k"}> ({
  ^bb0(%k: i64):
    vk.yield %k : i64
  }) : (i64, i64, i64) -> i64
}

// -----
// CHECK: results are (f64), expected (i64)
vk.mapped @range(%n: i64) {
  %r = "vk.range"(%n, %n, %n) <{axis = "k"}> ({
  ^bb0(%k: i64, %a: i64):
    vk.yield %k : i64
  }) : (i64, i64, i64) -> f64
}

// -----
// CHECK: tensor<8xi64, #vk.axes<j>> is carried by a ragged range, but lacks i
vk.mapped @range(%n: i64) {
  %t = vk.broadcast %n : i64 -> tensor<4xi64, #vk.axes<i>>
  %u = vk.broadcast %n : i64 -> tensor<8xi64, #vk.axes<j>>
  %r = vk.range %k = %t to %t : tensor<4xi64, #vk.axes<i>> carrying (%a = %u : tensor<8xi64, #vk.axes<j>>) {
    vk.yield %a : tensor<8xi64, #vk.axes<j>>
  }
}

// -----
// CHECK: 0 values are yielded for 1 carried values
vk.mapped @range(%n: i64) {
  %r = vk.range %k = %n to %n carrying (%a = %n : i64) {
  }
}

// -----
// CHECK: value 0 is yielded as f64, expected i64
vk.mapped @range(%n: i64, %x: f64) {
  %r = vk.range %k = %n to %n carrying (%a = %n : i64) {
    vk.yield %x : f64
  }
}

// -----
// CHECK: the body ends with test.termop, expected vk.yield
vk.mapped @range(%n: i64) {
  %r = vk.range %k = %n to %n carrying (%a = %n : i64) {
    "test.termop"() : () -> ()
  }
}

// -----
// CHECK: the body takes (i64), expected no arguments
vk.mapped @phase() {
  "vk.phase"() <{phase = "p"}> ({
  ^bb0(%k: i64):
    vk.yield
  }) : () -> ()
}

// -----
// CHECK: 1 values are yielded for 0 results
vk.mapped @phase(%x: f64) {
  vk.phase "p" {
    vk.yield %x : f64
  }
}

// -----
// CHECK: 1 sizes for !vk.buffer<[?, ?, 4], f32>, which has 2 ?
vk.mapped @buffer(%n: i64) {
  %b = vk.buffer "b" [%n] : !vk.buffer<[?, ?, 4], f32>
}

// -----
// CHECK: launch "l" is outside the top level of a vk.mapped
vk.kernel @launch() {
  vk.launch "l" over () {
  }
}

// -----
// CHECK: the body takes (i64), expected (i64, i64)
vk.mapped @launch(%n: i64) {
  "vk.launch"(%n, %n) <{label = "l"}> ({
  ^bb0(%p: i64):
  }) : (i64, i64) -> ()
}

// -----
// CHECK: the body takes (i32), expected (i64)
vk.mapped @launch(%n: i64) {
  "vk.launch"(%n) <{label = "l"}> ({
  ^bb0(%p: i32):
  }) : (i64) -> ()
}

// -----
// CHECK: tensor<4xf32, #vk.axes<i>> does not lie in !vk.spilled<tensor<8xf32, #vk.axes<i>>>
vk.mapped @spilled(%n: i64) {
  vk.launch "l" over () {
    %t = arith.constant dense<0.0> : tensor<4xf32, #vk.axes<i>>
    %s = vk.spill %t : tensor<4xf32, #vk.axes<i>> -> !vk.spilled<tensor<8xf32, #vk.axes<i>>>
  }
}

// -----
// CHECK: what is spilled is a tile, not i64
vk.mapped @spilled(%s: !vk.spilled<i64>) {
}
