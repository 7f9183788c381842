// RUN: vk-opt --prefetch-rows --verify-mapped %s | filecheck %s
// Rows of 128 bytes are asked for 16 iterations ahead, by an index that is 0 where there is none so far ahead. Shorter
// rows, rows of a scratchpad, and rows whose index the loop carries are not.

// CHECK-LABEL: vk.mapped @bags
// CHECK:         vk.size E
// CHECK:         scf.for %e = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%total = %{{.*}})
// CHECK:           %at = vk.load %index[%e + r] : !vk.tensor<[E], i64> -> tensor<1xi64, #vk.axes<r>>
// CHECK-NEXT:      [[AHEAD:%.*]] = arith.constant 16 : i64
// CHECK-NEXT:      [[LATER:%.*]] = arith.addi %e, [[AHEAD]] : i64
// CHECK-NEXT:      [[NEXT:%.*]] = vk.load %index{{.}}[[LATER]] + r] guarding [0] : !vk.tensor<[E], i64> -> tensor<1xi64, #vk.axes<r>>
// CHECK-NEXT:      vk.prefetch %table{{.}}[[NEXT]], c] : !vk.tensor<[V, C], f32>, (tensor<1xi64, #vk.axes<r>>) -> tensor<1x32xf32, #vk.axes<r, c>>
// CHECK-NEXT:      vk.gather %table[%at, c]
vk.mapped @bags(%index: !vk.tensor<[E], i64>, %table: !vk.tensor<[V, C], f32>, %out: !vk.tensor<[R, C], f32>, %n: i64) lanes c facts {sizes = {}, multiples = {}, strides = {index = [1 : i64], table = [-1 : i64, 1 : i64]}, distinct} {
  %one = arith.constant 1 : i64
  vk.launch "bags" over (%p = %one) {
    %first = arith.constant 0 : i64
    %step = arith.constant 1 : i64
    %zero = arith.constant dense<0.000000e+00> : tensor<1x32xf32, #vk.axes<r, c>>
    %sum = scf.for %e = %first to %n step %step iter_args(%total = %zero) -> (tensor<1x32xf32, #vk.axes<r, c>>) : i64 {
      %at = vk.load %index[%e + r] : !vk.tensor<[E], i64> -> tensor<1xi64, #vk.axes<r>>
      %row = vk.gather %table[%at, c] : !vk.tensor<[V, C], f32>, (tensor<1xi64, #vk.axes<r>>) -> tensor<1x32xf32, #vk.axes<r, c>>
      %more = arith.addf %total, %row : tensor<1x32xf32, #vk.axes<r, c>>
      scf.yield %more : tensor<1x32xf32, #vk.axes<r, c>>
    }
    vk.store %sum in %out[%p + r, c] : !vk.tensor<[R, C], f32> <- tensor<1x32xf32, #vk.axes<r, c>>
  }
}

// CHECK-LABEL: vk.mapped @others
// CHECK-NOT:     vk.prefetch
vk.mapped @others(%index: !vk.tensor<[E], i64>, %table: !vk.tensor<[V, C], f32>, %out: !vk.tensor<[R, C], f32>, %n: i64) lanes c facts {sizes = {}, multiples = {}, strides = {index = [1 : i64], table = [-1 : i64, 1 : i64]}, distinct} {
  %one = arith.constant 1 : i64
  vk.launch "others" over (%p = %one) {
    %first = arith.constant 0 : i64
    %step = arith.constant 1 : i64
    %zero = arith.constant dense<0.000000e+00> : tensor<1x8xf32, #vk.axes<r, c>>
    %start = arith.constant dense<0> : tensor<1xi64, #vk.axes<r>>
    %kept = vk.scratch "kept" : !vk.scratch<[64, 32], f32>
    %last, %sum = scf.for %e = %first to %n step %step iter_args(%here = %start, %total = %zero) -> (tensor<1xi64, #vk.axes<r>>, tensor<1x8xf32, #vk.axes<r, c>>) : i64 {
      %at = vk.load %index[%e + r] : !vk.tensor<[E], i64> -> tensor<1xi64, #vk.axes<r>>
      %short = vk.gather %table[%at, c] : !vk.tensor<[V, C], f32>, (tensor<1xi64, #vk.axes<r>>) -> tensor<1x8xf32, #vk.axes<r, c>>
      %own = vk.gather %kept[%at, c] : !vk.scratch<[64, 32], f32>, (tensor<1xi64, #vk.axes<r>>) -> tensor<1x32xf32, #vk.axes<r, c>>
      %linked = vk.gather %table[%here, c] : !vk.tensor<[V, C], f32>, (tensor<1xi64, #vk.axes<r>>) -> tensor<1x32xf32, #vk.axes<r, c>>
      vk.store %own in %out[%e + r, c] : !vk.tensor<[R, C], f32> <- tensor<1x32xf32, #vk.axes<r, c>>
      vk.store %linked in %out[%e + r, c] : !vk.tensor<[R, C], f32> <- tensor<1x32xf32, #vk.axes<r, c>>
      %more = arith.addf %total, %short : tensor<1x8xf32, #vk.axes<r, c>>
      scf.yield %at, %more : tensor<1xi64, #vk.axes<r>>, tensor<1x8xf32, #vk.axes<r, c>>
    }
    vk.store %sum in %out[%p + r, c] : !vk.tensor<[R, C], f32> <- tensor<1x8xf32, #vk.axes<r, c>>
  }
}
