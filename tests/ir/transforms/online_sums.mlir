// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=16","e=8" online=j sizes="E=8" multiples="M=4","N=16" distinct=true}' --verify-mapped %s | filecheck %s
// All sums that are linear in the exponentials share the loop of the maximum: a dot with exponentials rounded to f16 and
// a sum of those that a condition does not hide, times a weight. Each is rescaled when the base moves; the third tile
// that the loop carries beside them says whether any exponential was not hidden, because they are NaN in a row of -inf.
// The dot's initial sum is not rescaled, but added after the loop.

vk.kernel @attention(%x: !vk.tensor<[M, N], f32>, %v: !vk.tensor<[N, E], f16>, %w: !vk.tensor<[N], f32>, %out: !vk.tensor<[M, E], f32>, %mean: !vk.tensor<[M], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %E = vk.size E
  vk.whole e < %E
  %zero = arith.constant 0.0 : f32
  %two = arith.constant 2.0 : f32
  %score = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %max = vk.max %score along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %mb = vk.broadcast %max : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %d = arith.subf %score, %mb : tensor<?x?xf32, #vk.axes<i, j>>
  %p = math.exp %d : tensor<?x?xf32, #vk.axes<i, j>>
  %narrow = arith.truncf %p : tensor<?x?xf32, #vk.axes<i, j>> to tensor<?x?xf16, #vk.axes<i, j>>
  %wide = arith.extf %narrow : tensor<?x?xf16, #vk.axes<i, j>> to tensor<?x?xf32, #vk.axes<i, j>>
  %value16 = vk.load %v[j, e] : !vk.tensor<[N, E], f16> -> tensor<?x?xf16, #vk.axes<j, e>>
  %value = arith.extf %value16 : tensor<?x?xf16, #vk.axes<j, e>> to tensor<?x?xf32, #vk.axes<j, e>>
  %start = vk.broadcast %two : f32 -> tensor<?x?xf32, #vk.axes<i, e>>
  %dot = vk.dot %wide, %value, %start along j precision ieee : tensor<?x?xf32, #vk.axes<i, j>>, tensor<?x?xf32, #vk.axes<j, e>>, tensor<?x?xf32, #vk.axes<i, e>>
  %weight = vk.load %w[j] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<j>>
  %wb = vk.broadcast %weight : tensor<?xf32, #vk.axes<j>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %zeros = vk.broadcast %zero : f32 -> tensor<?x?xf32, #vk.axes<i, j>>
  %seen = arith.cmpf ogt, %wb, %zeros : tensor<?x?xf32, #vk.axes<i, j>>
  %shown = arith.select %seen, %p, %zeros : tensor<?x?xi1, #vk.axes<i, j>>, tensor<?x?xf32, #vk.axes<i, j>>
  %times = arith.mulf %wb, %shown : tensor<?x?xf32, #vk.axes<i, j>>
  %sum = vk.sum %times along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  vk.store %dot in %out[i, e] : !vk.tensor<[M, E], f32> <- tensor<?x?xf32, #vk.axes<i, e>>
  vk.store %sum in %mean[i] : !vk.tensor<[M], f32> <- tensor<?xf32, #vk.axes<i>>
}

// CHECK:      %[[ONE:[0-9]+]] = arith.constant dense<1.000000e+00> : tensor<4x16xf32
// CHECK:      %max, %[[BASE:[0-9]+]], %[[DOTS:[0-9]+]], %[[SUMS:[0-9]+]], %[[SEEN:[0-9]+]] = scf.for %j0 = {{.*}} iter_args(%[[M:[0-9]+]] = %{{[0-9]+}}, %[[B:[0-9]+]] = %{{[0-9]+}}, %[[D:[0-9]+]] = %{{[0-9]+}}, %[[S:[0-9]+]] = %{{[0-9]+}}, %[[A:[0-9]+]] = %{{[0-9]+}})
// CHECK-NEXT:   %score = vk.load %x
// CHECK:        vk.max %score along j
// CHECK:        %[[UP:[0-9]+]] = arith.cmpf ogt
// CHECK:        %[[FACTOR:[0-9]+]] = math.exp %{{[0-9]+}} : tensor<4xf32
// CHECK:        %[[SCALE:[0-9]+]] = arith.select %[[UP]], %[[FACTOR]]
// CHECK:        %[[P:[0-9]+]] = math.exp %{{[0-9]+}} : tensor<4x16xf32
// CHECK-NEXT:   %[[NARROW:[0-9]+]] = arith.truncf %[[P]]
// CHECK-NEXT:   %[[WIDE:[0-9]+]] = arith.extf %[[NARROW]]
// CHECK-NEXT:   %[[SHOWN:[0-9]+]] = arith.select %seen, %[[P]], %zeros
// CHECK-NEXT:   %[[TIMES:[0-9]+]] = arith.mulf %wb, %[[SHOWN]]
// CHECK-NEXT:   %[[LESS:[0-9]+]] = vk.broadcast %[[SCALE]]
// CHECK-NEXT:   %[[OLD:[0-9]+]] = arith.mulf %[[S]], %[[LESS]] {vk.rescaled}
// CHECK-NEXT:   %[[SUM:[0-9]+]] = arith.addf %[[OLD]], %[[TIMES]]
// CHECK-NEXT:   %[[BY:[0-9]+]] = vk.broadcast %[[SCALE]]
// CHECK-NEXT:   %[[RESCALED:[0-9]+]] = arith.mulf %[[D]], %[[BY]] {vk.rescaled}
// CHECK-NEXT:   %[[NEXT:[0-9]+]] = vk.dot %[[WIDE]], %value, %[[RESCALED]] along j
// CHECK-NEXT:   %[[HERE:[0-9]+]] = arith.select %seen, %[[ONE]]
// CHECK-NEXT:   %[[ANY:[0-9]+]] = arith.maximumf %[[A]], %[[HERE]]
// CHECK-NEXT:   scf.yield %{{[0-9]+}}, %{{[0-9]+}}, %[[NEXT]], %[[SUM]], %[[ANY]]
// CHECK:      arith.mulf %[[DOTS]]
// CHECK:      %dot = arith.addf %{{[0-9]+}}, %start
// CHECK:      vk.sum %[[SUMS]] along j
// CHECK:      vk.max %[[SEEN]] along j
// CHECK-NOT:  scf.for
