// RUN: vk-opt %s | filecheck %s
// RUN: vk-opt %s | vk-opt | filecheck %s
// RUN: vk-opt %s --print-op-generic | vk-opt | filecheck %s
// The frame of a kernel reads aloud, and survives printing and parsing in the custom and the generic form.

// CHECK-LABEL: vk.kernel @sizes_and_axes(%x: !vk.tensor<[M, 3], f32>, %eps: f64, %n: i64, %on: i1) {
// CHECK-NEXT:    %M = vk.size M
// CHECK-NEXT:    %N = vk.size N
// CHECK-NEXT:    vk.tile i < %M
// CHECK-NEXT:    vk.whole j < %N
vk.kernel @sizes_and_axes(%x: !vk.tensor<[M, 3], f32>, %eps: f64, %n: i64, %on: i1) {
  %M = vk.size M
  %N = vk.size N
  vk.tile i < %M
  vk.whole j < %N
}

// A parameter keeps its name where the value prints under another one, and a name may be any text.
// CHECK-LABEL: vk.kernel @"any name"(%x: f64, %y as "y_1": f64, %0 as "a \22b\22": f64) {
// CHECK-NEXT:    %M = vk.size "a size"
// CHECK-NEXT:    vk.tile "an axis" < %M
vk.kernel @"any name"(%x: f64, %y_1: f64, %0 as "a \"b\"": f64) {
  %M = vk.size "a size"
  vk.tile "an axis" < %M
}

// CHECK-LABEL: vk.kernel @facts(%x: !vk.tensor<[M], f16>)
// CHECK-SAME:    facts {sizes = {M = 7 : i64}, multiples = {}, strides = {x = [1 : i64]}, distinct} attributes {note = "mine"} {
vk.kernel @facts(%x: !vk.tensor<[M], f16>)
    facts {sizes = {M = 7 : i64}, multiples = {}, strides = {x = [1 : i64]}, distinct} attributes {note = "mine"} {
}

// CHECK-LABEL: vk.kernel @ranges
vk.kernel @ranges(%x: !vk.tensor<[M], f32>, %start: !vk.tensor<[M], i64>) {
  %M = vk.size M
  vk.tile i < %M
  %zero = arith.constant 0 : i64
  %lo = vk.load %start[i] : !vk.tensor<[M], i64> -> tensor<?xi64, #vk.axes<i>>
  %hi = vk.load %start[%zero + i] : !vk.tensor<[M], i64> -> tensor<?xi64, #vk.axes<i>>
  %one = vk.load %x[i] : !vk.tensor<[M], f32> -> tensor<?xf32, #vk.axes<i>>

  // A `vk.yield` of nothing goes without saying.
  // CHECK:         vk.range %k = %zero to %M {
  // CHECK-NEXT:      vk.range %k_1 as "k" = %zero to %k {
  // CHECK-NEXT:      }
  // CHECK-NEXT:    }
  vk.range %k = %zero to %M {
    vk.range %k_1 as "k" = %zero to %k {
      vk.yield
    }
  }

  // CHECK:         %sum, %count = vk.range %l = %zero to %M carrying (%a = %one : tensor<?xf32, #vk.axes<i>>, %b = %zero : i64) attributes {unroll} {
  // CHECK-NEXT:      vk.yield %a, %b : tensor<?xf32, #vk.axes<i>>, i64
  // CHECK-NEXT:    }
  %sum, %count = vk.range %l = %zero to %M carrying (%a = %one : tensor<?xf32, #vk.axes<i>>, %b = %zero : i64) attributes {unroll} {
    vk.yield %a, %b : tensor<?xf32, #vk.axes<i>>, i64
  }

  // A ragged range: a start, a stop and a position for each element.
  // CHECK:         %total = vk.range %p = %lo to %hi : tensor<?xi64, #vk.axes<i>> carrying (%c = %sum : tensor<?xf32, #vk.axes<i>>) {
  // CHECK-NEXT:      %element = vk.gather %x[%p]
  // CHECK:           vk.yield %next : tensor<?xf32, #vk.axes<i>>
  %total = vk.range %p = %lo to %hi : tensor<?xi64, #vk.axes<i>> carrying (%c = %sum : tensor<?xf32, #vk.axes<i>>) {
    %element = vk.gather %x[%p] : !vk.tensor<[M], f32>, (tensor<?xi64, #vk.axes<i>>) -> tensor<?xf32, #vk.axes<i>>
    %next = arith.addf %c, %element : tensor<?xf32, #vk.axes<i>>
    vk.yield %next : tensor<?xf32, #vk.axes<i>>
  }
}

// CHECK-LABEL: vk.kernel @phases
vk.kernel @phases(%x: !vk.tensor<[M], f32>) {
  %M = vk.size M
  vk.tile i < %M
  // CHECK:         %row = vk.phase "loads" -> (tensor<?xf32, #vk.axes<i>>) attributes {first} {
  // CHECK-NEXT:      %r = vk.load
  // CHECK-NEXT:      vk.yield %r : tensor<?xf32, #vk.axes<i>>
  // CHECK-NEXT:    }
  %row = vk.phase "loads" -> (tensor<?xf32, #vk.axes<i>>) attributes {first} {
    %r = vk.load %x[i] : !vk.tensor<[M], f32> -> tensor<?xf32, #vk.axes<i>>
    vk.yield %r : tensor<?xf32, #vk.axes<i>>
  }
  // CHECK-NEXT:    vk.boundary
  // CHECK-NEXT:    vk.boundary "stores" {why = "author"}
  vk.boundary
  vk.boundary "stores" {why = "author"}
  // CHECK-NEXT:    vk.phase "stores" {
  // CHECK-NEXT:      vk.store %row in %x[i]
  // CHECK-NEXT:    }
  vk.phase "stores" {
    vk.store %row in %x[i] : !vk.tensor<[M], f32> <- tensor<?xf32, #vk.axes<i>>
  }
  // CHECK-NEXT:    %features = vk.scratch "features" : !vk.scratch<[i, 3], bf16>
  %features = vk.scratch "features" : !vk.scratch<[i, 3], bf16>
}

// CHECK-LABEL: vk.mapped @launches(%x: !vk.tensor<[M], f32>) lanes j facts {sizes = {}, multiples = {M = 8 : i64}, strides = {}} {
// CHECK-NEXT:    %M = vk.size M
// CHECK-NEXT:    %partial = vk.buffer "partial" [%M, %M] : !vk.buffer<[?, 16, ?], f32>
// CHECK-NEXT:    vk.launch "first" over (%p = %M, %q = %M) {
// CHECK-NEXT:      %swap = vk.buffer "swap" [] : !vk.buffer<[4, 8], i8>
// CHECK-NEXT:      %s = vk.scratch "s" : !vk.scratch<[1024, 64], f32>
// CHECK-NEXT:      vk.barrier
// CHECK-NEXT:      %is_first = vk.first %q
// CHECK-NEXT:    }
// CHECK-NEXT:    vk.launch "second" over () {
// CHECK-NEXT:    }
vk.mapped @launches(%x: !vk.tensor<[M], f32>) lanes j facts {sizes = {}, multiples = {M = 8 : i64}, strides = {}} {
  %M = vk.size M
  %partial = vk.buffer "partial"[%M, %M] : !vk.buffer<[?, 16, ?], f32>
  vk.launch "first" over (%p = %M, %q = %M) {
    %swap = vk.buffer "swap"[] : !vk.buffer<[4, 8], i8>
    %s = vk.scratch "s" : !vk.scratch<[1024, 64], f32>
    vk.barrier
    %is_first = vk.first %q
  }
  vk.launch "second" over () {
  }
}

// CHECK-LABEL: vk.mapped @spilled
// CHECK:         %s = vk.spill %t : tensor<4xf32, #vk.axes<i>> -> !vk.spilled<tensor<4xf32, #vk.axes<i>>>
// CHECK-NEXT:    %r = vk.reload %s : !vk.spilled<tensor<4xf32, #vk.axes<i>>> -> tensor<4xf32, #vk.axes<i>>
vk.mapped @spilled(%n: i64) {
  vk.launch "l" over () {
    %t = arith.constant dense<0.0> : tensor<4xf32, #vk.axes<i>>
    %s = vk.spill %t : tensor<4xf32, #vk.axes<i>> -> !vk.spilled<tensor<4xf32, #vk.axes<i>>>
    %r = vk.reload %s : !vk.spilled<tensor<4xf32, #vk.axes<i>>> -> tensor<4xf32, #vk.axes<i>>
  }
}
